"""feedline: headers and payloads of every record, findings collected."""

from __future__ import annotations

import feedline as fl
from benchmarks.workloads import Workload

ROWS = {"feedline": [{}]}


def verify(workload: Workload) -> int:
    return sum(fl.records.verify(path).records for path in workload.files)

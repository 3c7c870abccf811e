"""The floor of read_examples: every byte read once, and its CRC32C taken."""

from __future__ import annotations

from benchmarks.read_examples import limit
from benchmarks.workloads import Workload

ROWS = limit.ROWS


def verify(workload: Workload, buffer_kb: int) -> int:
    return limit.read(workload, buffer_kb)

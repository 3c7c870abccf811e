"""feedline: files by turns, 16 or 1,024 at a time, and as one list."""

from __future__ import annotations

from collections.abc import Iterator

from numpy.typing import NDArray

import feedline as fl
from benchmarks.many_files import BATCH, pattern
from benchmarks.workloads import Workload

ROWS = {
    "feedline_16": [{"cycle_length": 16}],
    "feedline_1024": [{"cycle_length": 1024}],
    "feedline_list": [{"cycle_length": None}],
}


def read(workload: Workload, cycle_length: int | None) -> Iterator[dict[str, NDArray]]:
    features = {"x": fl.FixedLenFeature((16,), "float32"), "label": fl.FixedLenFeature((), "int64")}
    if cycle_length is None:
        records = fl.Dataset.from_tfrecords(pattern(workload), features)
    else:
        records = fl.Dataset.list_files(pattern(workload), shuffle=False).interleave(
            lambda path: fl.Dataset.from_tfrecords(path, features), cycle_length=cycle_length
        )
    return iter(records.batch(BATCH))

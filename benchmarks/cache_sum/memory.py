"""No cache: the batches lie in memory, in a list."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from numpy.typing import NDArray

import feedline as fl
from benchmarks.read_examples.feedline import features_of
from benchmarks.workloads import BATCH, Workload

ROWS: dict[str, list[dict[str, object]]] = {"memory": [{}]}


@cache
def batches(workload: Workload) -> list[dict[str, NDArray]]:
    parsed = fl.Dataset.from_tfrecords(list(workload.files), features_of(workload))
    return list(parsed.batch(BATCH))


def epoch(workload: Workload) -> Iterator[dict[str, NDArray]]:
    return iter(batches(workload))

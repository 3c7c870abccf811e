"""feedline: cache(directory)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from numpy.typing import NDArray

import feedline as fl
from benchmarks.cache_epoch import location
from benchmarks.read_examples.feedline import features_of
from benchmarks.workloads import BATCH, Workload

ROWS: dict[str, list[dict[str, object]]] = {"feedline": [{}]}


@cache
def dataset(workload: Workload) -> fl.Dataset:
    parsed = fl.Dataset.from_tfrecords(list(workload.files), features_of(workload))
    return parsed.cache(location()).batch(BATCH)


def epoch(workload: Workload) -> Iterator[dict[str, NDArray]]:
    return iter(dataset(workload))

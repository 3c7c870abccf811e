"""grain, in this process."""

from __future__ import annotations

from collections.abc import Iterator

import grain.python as grain
from numpy.typing import NDArray

from benchmarks.python_map import double
from benchmarks.workloads import BATCH

ROWS = {"grain": [{"threads": 0}, {"threads": 16}]}


def run(array: NDArray, threads: int) -> Iterator[NDArray]:
    dataset = grain.MapDataset.source(array).map(double).batch(BATCH)
    return iter(dataset.to_iter_dataset(grain.ReadOptions(num_threads=threads, prefetch_buffer_size=threads)))

"""feedline, in this process."""

from __future__ import annotations

from collections.abc import Iterator

from numpy.typing import NDArray

import feedline as fl
from benchmarks.python_map import double
from benchmarks.workloads import BATCH

ROWS = {"feedline": [{}]}


def run(array: NDArray) -> Iterator[NDArray]:
    return iter(fl.Dataset.from_tensor_slices(array).map(double).batch(BATCH))

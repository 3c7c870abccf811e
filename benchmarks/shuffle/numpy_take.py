"""The floor: a permutation, and NumPy's own gather for each batch."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from benchmarks.workloads import BATCH

ROWS = {"numpy_take": [{}]}


def run(array: NDArray) -> Iterator[NDArray]:
    order = np.random.default_rng(1).permutation(len(array))
    for at in range(0, len(array), BATCH):
        yield array[order[at : at + BATCH]]

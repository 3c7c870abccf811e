"""feedline: with a buffer that holds all rows, as tf.data has it, and as a global shuffle by index."""

from __future__ import annotations

from collections.abc import Iterator

from numpy.typing import NDArray

import feedline as fl
from benchmarks.workloads import BATCH

ROWS = {"feedline": [{"buffer": True}], "feedline_global": [{"buffer": False}]}


def run(array: NDArray, buffer: bool) -> Iterator[NDArray]:
    dataset = fl.Dataset.from_tensor_slices(array)
    return iter(dataset.shuffle(len(array) if buffer else None, seed=1).batch(BATCH))

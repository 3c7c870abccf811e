"""tf.data: the same program, with and without prefetch."""

from __future__ import annotations

from collections.abc import Iterator

import tensorflow as tf
from numpy.typing import NDArray

from benchmarks.workloads import BATCH

ROWS = {"tf_data": [{"prefetch": False}, {"prefetch": True}]}


def run(array: NDArray, prefetch: bool) -> Iterator[NDArray]:
    dataset = tf.data.Dataset.from_tensor_slices(array).shuffle(len(array), seed=1).batch(BATCH)
    return (dataset.prefetch(tf.data.AUTOTUNE) if prefetch else dataset).as_numpy_iterator()

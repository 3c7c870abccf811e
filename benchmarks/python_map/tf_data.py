"""tf.data: the function as a Python function (numpy_function), and as a graph, which needs no Python."""

from __future__ import annotations

from collections.abc import Iterator

import tensorflow as tf
from numpy.typing import NDArray

from benchmarks.python_map import double
from benchmarks.workloads import BATCH

ROWS = {"tf_data": [{"graph": False}], "tf_data_graph": [{"graph": True}]}


def run(array: NDArray, graph: bool) -> Iterator[NDArray]:
    def by_python(x: tf.Tensor) -> tf.Tensor:
        return tf.ensure_shape(tf.numpy_function(double, [x], tf.float32), [array.shape[1]])

    dataset = tf.data.Dataset.from_tensor_slices(array).map(double if graph else by_python)
    return dataset.batch(BATCH).prefetch(tf.data.AUTOTUNE).as_numpy_iterator()

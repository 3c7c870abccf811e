"""tf.data: the same program, and its best way of reading and shuffling without interleaving.

Parsing is vectorised where that is possible: after the batch.
"""

from __future__ import annotations

from collections.abc import Iterator

import tensorflow as tf
from numpy.typing import NDArray

from benchmarks.interleaved import BUFFER
from benchmarks.read_examples.tf_data import parser
from benchmarks.workloads import BATCH, Workload

ROWS = {
    "tf_data": [
        {"read": "interleaved", "calls": 2},
        {"read": "interleaved", "calls": 2, "autotune": False},
        {"read": "interleaved", "calls": "autotune"},
        {"read": "interleaved", "calls": None},
    ],
    "tf_data_not_interleaved": [
        {"read": "sequential"},
        {"read": "sequential", "autotune": False},
        {"read": "sequential", "buffer_mb": 0.25},
    ],
}


def read(
    workload: Workload, read: str, calls: int | str | None = 2, autotune: bool = True, buffer_mb: float = 8
) -> Iterator[dict[str, NDArray]]:
    files = list(workload.files)
    buffer = int(buffer_mb * 2**20)
    if read == "interleaved":
        parallel = tf.data.AUTOTUNE if calls == "autotune" else calls
        records = tf.data.Dataset.from_tensor_slices(files).interleave(
            lambda path: tf.data.TFRecordDataset(path, buffer_size=buffer),
            cycle_length=16,
            block_length=1,
            num_parallel_calls=parallel,
            deterministic=None if parallel is None else True,
        )
    else:
        records = tf.data.TFRecordDataset(files, buffer_size=buffer)
    batches = records.shuffle(BUFFER, seed=1).batch(BATCH, drop_remainder=True)
    options = tf.data.Options()
    options.autotune.enabled = autotune
    ahead = tf.data.AUTOTUNE if autotune else 4
    return parser(workload, 2)(batches).prefetch(ahead).with_options(options).as_numpy_iterator()

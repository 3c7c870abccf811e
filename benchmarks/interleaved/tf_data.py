"""tf.data: the same program, the same with batches parsed at the end, and the best without taking turns.

As feedline's program, the first parses records where they are read, in front of the shuffle.
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
        {"read": "interleaved and parsed", "calls": "autotune", "autotune": False},
        {"read": "interleaved and parsed", "calls": "autotune"},
        {"read": "interleaved and parsed", "calls": 2, "autotune": False},
    ],
    "tf_data_batches_parsed": [
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
    parsed_at_once = read == "interleaved and parsed"
    of_one, of_batches = parser(workload, None), parser(workload, 2)

    def records_of(path: tf.Tensor) -> tf.data.Dataset:
        records = tf.data.TFRecordDataset(path, buffer_size=buffer)
        return of_one(records) if parsed_at_once else records

    if read == "sequential":
        records = tf.data.TFRecordDataset(files, buffer_size=buffer)
    else:
        parallel = tf.data.AUTOTUNE if calls == "autotune" else calls
        records = tf.data.Dataset.from_tensor_slices(files).interleave(
            records_of,
            cycle_length=16,
            block_length=1,
            num_parallel_calls=parallel,
            deterministic=None if parallel is None else True,
        )
    batches = records.shuffle(BUFFER, seed=1).batch(BATCH, drop_remainder=True)
    if not parsed_at_once:
        batches = of_batches(batches)
    options = tf.data.Options()
    options.autotune.enabled = autotune
    ahead = tf.data.AUTOTUNE if autotune else 4
    return batches.prefetch(ahead).with_options(options).as_numpy_iterator()

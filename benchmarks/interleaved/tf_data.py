"""tf.data: the same program, the same with batches parsed at the end, and the best without taking turns.

As feedline's program, the first parses records in front of the shuffle: in each file's dataset, or after they
were interleaved.
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
        {"read": "interleaved, then parsed", "calls": "autotune"},
        {"read": "interleaved, then parsed", "calls": 2, "autotune": False},
        {"read": "interleaved, then parsed", "calls": None, "autotune": False},
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
    parallel = tf.data.AUTOTUNE if calls == "autotune" else calls
    in_step, of_each, of_batches = (parser(workload, n) for n in (None, parallel, 2))

    def records_of(path: tf.Tensor) -> tf.data.Dataset:
        records = tf.data.TFRecordDataset(path, buffer_size=buffer)
        return in_step(records) if read == "interleaved and parsed" else records

    if read == "sequential":
        records = tf.data.TFRecordDataset(files, buffer_size=buffer)
    else:
        records = tf.data.Dataset.from_tensor_slices(files).interleave(
            records_of,
            cycle_length=16,
            block_length=1,
            num_parallel_calls=parallel,
            deterministic=None if parallel is None else True,
        )
    if read == "interleaved, then parsed":
        records = of_each(records)
    batches = records.shuffle(BUFFER, seed=1).batch(BATCH, drop_remainder=True)
    if read in ("interleaved", "sequential"):
        batches = of_batches(batches)
    options = tf.data.Options()
    options.autotune.enabled = autotune
    ahead = tf.data.AUTOTUNE if autotune else 4
    return batches.prefetch(ahead).with_options(options).as_numpy_iterator()

"""tf.data: files by turns, 16 at a time, with batches parsed at the end, which is its fastest way."""

from __future__ import annotations

from collections.abc import Iterator

import tensorflow as tf
from numpy.typing import NDArray

from benchmarks.many_files import BATCH, pattern
from benchmarks.workloads import Workload

ROWS = {
    "tf_data": [
        {"calls": None, "autotune": False},
        {"calls": None, "autotune": True},
        {"calls": 2, "autotune": False},
        {"calls": 16, "autotune": False},
        {"calls": "autotune", "autotune": True},
        {"calls": 16, "autotune": False, "deterministic": False},
    ]
}


def read(
    workload: Workload, calls: int | str | None, autotune: bool, deterministic: bool = True
) -> Iterator[dict[str, NDArray]]:
    parallel = tf.data.AUTOTUNE if calls == "autotune" else calls
    features = {"x": tf.io.FixedLenFeature((16,), tf.float32), "label": tf.io.FixedLenFeature((), tf.int64)}
    batches = (
        tf.data.Dataset.list_files(pattern(workload), shuffle=False)
        .interleave(
            tf.data.TFRecordDataset,
            cycle_length=16,
            block_length=1,
            num_parallel_calls=parallel,
            deterministic=None if parallel is None else deterministic,
        )
        .batch(BATCH, drop_remainder=True)
        .map(lambda records: tf.io.parse_example(records, features))
    )
    options = tf.data.Options()
    options.autotune.enabled = autotune
    return batches.prefetch(4).with_options(options).as_numpy_iterator()

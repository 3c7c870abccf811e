"""tf.data, in each of the ways that its guides, its issues and our trials found fast.

What wins differs by workload and machine, so all of them run and the best counts. Always: vectorised
parsing of whole batches in parallel (tf.io.parse_example), prefetch, and arrays handed over by
as_numpy_iterator, which does not copy. Left out, because they never came near the best: parallel reads of
two files or left to autotune, map calls left to autotune, and parse_example_dataset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import tensorflow as tf
from numpy.typing import NDArray

from benchmarks.workloads import BATCH, Feature, Workload

ROWS = {
    "tf_data": [
        {"read": "interleaved batches", "reads": 2, "autotune": False, "threads": 2},
        {"read": "interleaved batches", "reads": 2},
        {"read": "interleaved batches", "reads": "autotune", "calls": "autotune"},
        {"read": "interleaved parsed batches", "reads": 2, "buffer_mb": 1},
        {"read": "interleaved parsed batches", "reads": 2, "autotune": False, "deterministic": False},
        {"read": "sequential"},
        {"read": "sequential", "buffer_mb": 0.25},
        {"read": "sequential", "autotune": False},
        {"read": "sequential", "autotune": False, "threads": 2, "deterministic": False},
        {"read": "parallel reads", "reads": 4, "deterministic": False},
    ]
}
Step = Callable[[tf.data.Dataset], tf.data.Dataset]
DTYPES = {"bytes": tf.string, "float": tf.float32, "int64": tf.int64}


def read(
    workload: Workload,
    read: str,
    reads: int | str | None = None,
    buffer_mb: float = 8,
    calls: int | str = 2,
    deterministic: bool = True,
    threads: int | None = None,
    autotune: bool = True,
) -> Iterator[dict[str, NDArray]]:
    reads, calls = (tf.data.AUTOTUNE if n == "autotune" else n for n in (reads, calls))
    files = list(workload.files)
    parsed = parser(workload, calls)

    def batches(path: object, parallel: int | None = None) -> tf.data.Dataset:
        records = tf.data.TFRecordDataset(path, None, int(buffer_mb * 2**20), parallel)
        return records.batch(BATCH, drop_remainder=True)

    def interleaved(each: Callable[[tf.Tensor], tf.data.Dataset]) -> tf.data.Dataset:
        cycle = None if reads == tf.data.AUTOTUNE else reads
        paths = tf.data.Dataset.from_tensor_slices(files)
        return paths.interleave(each, cycle_length=cycle, num_parallel_calls=reads)

    if read == "sequential":
        dataset = parsed(batches(files))
    elif read == "parallel reads":
        dataset = parsed(batches(files, reads))
    elif read == "interleaved batches":
        dataset = parsed(interleaved(batches))
    elif read == "interleaved parsed batches":
        in_step = parser(workload, None)  # the files are what runs in parallel
        dataset = interleaved(lambda path: in_step(batches(path)))
    else:
        raise ValueError(f"read={read!r} is none of the ways known here")

    options = tf.data.Options()
    options.deterministic = deterministic
    options.autotune.enabled = autotune
    if threads is not None:
        options.threading.private_threadpool_size = threads
    ahead = tf.data.AUTOTUNE if autotune else 4
    return dataset.prefetch(ahead).with_options(options).as_numpy_iterator()


def parser(workload: Workload, calls: int | None) -> Step:
    spec = {key: _spec(feature) for key, feature in workload.features.items()}
    raw = [key for key, feature in workload.features.items() if feature.kind == "bytes"]

    def parsed(records: tf.Tensor) -> dict[str, tf.Tensor]:
        batch = tf.io.parse_example(records, spec)
        return batch | {key: tf.io.decode_raw(batch[key], tf.uint8) for key in raw}

    return lambda dataset: dataset.map(parsed, calls)


def _spec(feature: Feature) -> tf.io.FixedLenFeature:
    return tf.io.FixedLenFeature(() if feature.kind == "bytes" else feature.shape, DTYPES[feature.kind])

"""tf.data: its cache in files and its cache in memory, of parsed records and of whole batches.

Batches are what is quickest to read, and what nobody can shuffle any more: so both are tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import tensorflow as tf
from numpy.typing import NDArray

from benchmarks.cache_epoch import location
from benchmarks.read_examples.tf_data import parser
from benchmarks.workloads import BATCH, Workload

SETTINGS = [{"prefetch": prefetch} for prefetch in (False, True)]
ROWS = {
    "tf_file": [{"where": "file", **one} for one in SETTINGS],
    "tf_memory": [{"where": "memory", **one} for one in SETTINGS],
    "tf_file_batches": [{"where": "file", "batched": True, "prefetch": True}],
    "tf_memory_batches": [{"where": "memory", "batched": True, "prefetch": True}],
}


@cache
def dataset(workload: Workload, where: str, prefetch: bool, batched: bool) -> tf.data.Dataset:
    records = tf.data.TFRecordDataset(list(workload.files), None, 8 << 20)
    parsed = parser(workload, 2)(records.batch(BATCH, drop_remainder=True))
    if not batched:
        parsed = parsed.unbatch()
    cached = parsed.cache(f"{location()}/tf" if where == "file" else "")
    if not batched:
        cached = cached.batch(BATCH, drop_remainder=True)
    return cached.prefetch(tf.data.AUTOTUNE) if prefetch else cached


def epoch(
    workload: Workload, where: str, prefetch: bool, batched: bool = False
) -> Iterator[dict[str, NDArray]]:
    return dataset(workload, where, prefetch, batched).as_numpy_iterator()

"""feedline: the same program as tf.data's."""

from __future__ import annotations

from collections.abc import Iterator

from numpy.typing import NDArray

import feedline as fl
from benchmarks.interleaved import BUFFER
from benchmarks.read_examples.feedline import features_of
from benchmarks.workloads import BATCH, Workload

ROWS = {"feedline": [{"prefetch": False}, {"prefetch": True}]}


def read(workload: Workload, prefetch: bool) -> Iterator[dict[str, NDArray]]:
    features = features_of(workload)
    dataset = (
        fl.Dataset.from_tensor_slices(list(workload.files))
        .interleave(lambda path: fl.Dataset.from_tfrecords(path, features), cycle_length=16, block_length=1)
        .shuffle(BUFFER, seed=1)
        .batch(BATCH)
    )
    return iter(dataset.prefetch(8) if prefetch else dataset)

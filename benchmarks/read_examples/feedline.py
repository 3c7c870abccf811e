"""feedline, on one thread and on two."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

import feedline as fl
from benchmarks.workloads import BATCH, Feature, Workload

ROWS = {"feedline": [{"threads": 1}], "feedline_2_threads": [{"threads": 2}]}


def read(workload: Workload, threads: int) -> Iterator[dict[str, NDArray]]:
    features = features_of(workload)
    for block in fl.records.read_blocks(list(workload.files), features, rows=BATCH, threads=threads):
        yield block.as_batch()


def features_of(workload: Workload) -> dict[str, fl.RawFeature | fl.FixedLenFeature]:
    return {key: _feature(feature) for key, feature in workload.features.items()}


def _feature(feature: Feature) -> fl.RawFeature | fl.FixedLenFeature:
    if feature.kind == "bytes":
        return fl.RawFeature(feature.shape, np.uint8)
    return fl.FixedLenFeature(feature.shape, np.float32 if feature.kind == "float" else np.int64)

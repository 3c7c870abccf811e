"""The `tfrecord` package (github.com/vahidk/tfrecord): plain Python over protobuf.

It gives one record at a time and checks no checksums; batches are stacked here, as its users do.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice

import numpy as np
from numpy.typing import NDArray
from tfrecord.reader import tfrecord_loader

from benchmarks.workloads import BATCH, Workload

ROWS = {"vahidk_tfrecord": [{}]}
FILES = 2  # a pass over all would take minutes, and the rate is the same
KINDS = {"bytes": "byte", "float": "float", "int64": "int"}


def read(workload: Workload) -> Iterator[dict[str, NDArray]]:
    description = {key: KINDS[feature.kind] for key, feature in workload.features.items()}
    records = chain.from_iterable(tfrecord_loader(path, None, description) for path in workload.files)
    while rows := list(islice(records, BATCH)):
        yield {key: _stack([row[key] for row in rows], f.shape) for key, f in workload.features.items()}


def _stack(values: list, shape: tuple[int, ...]) -> NDArray:
    if isinstance(values[0], bytes):
        return np.frombuffer(b"".join(values), np.uint8).reshape(-1, *shape)
    return np.concatenate(values).reshape(-1, *shape)

"""The `tfrecord` package (github.com/vahidk/tfrecord): its writer's serializer."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from tfrecord.writer import TFRecordWriter

from benchmarks.workloads import Columns

ROWS = {"vahidk_tfrecord": [{}]}


def encode(batches: list[Columns]) -> Iterator[list[bytes]]:
    kinds = ["float" if column.dtype == np.float32 else "int" for column in batches[0].values()]
    for columns in batches:
        yield [
            TFRecordWriter.serialize_tf_example(dict(zip(columns, zip(row, kinds, strict=True), strict=True)))
            for row in zip(*columns.values(), strict=True)
        ]

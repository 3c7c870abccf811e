"""The `tfrecord` package (github.com/vahidk/tfrecord): its writer's serializer."""

from __future__ import annotations

import numpy as np
from tfrecord.writer import TFRecordWriter

from benchmarks.workloads import Columns

ROWS = {"vahidk_tfrecord": [{}]}


def encode(columns: Columns) -> list[bytes]:
    kinds = [(key, "float" if column.dtype == np.float32 else "int") for key, column in columns.items()]
    return [
        TFRecordWriter.serialize_tf_example(
            {key: (value, kind) for (key, kind), value in zip(kinds, row, strict=True)}
        )
        for row in zip(*columns.values(), strict=True)
    ]

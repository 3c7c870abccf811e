"""tf.train.Example, built in Python and serialized: what TensorFlow's guides show.

Its repeated fields take arrays and lists; which is quicker depends on the version of protobuf.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from benchmarks.workloads import Columns

ROWS = {"tf_train_example": [{"values": "list"}, {"values": "array"}]}


def encode(columns: Columns, values: str) -> list[bytes]:
    keys = list(columns)
    # [rows, values] each: a record's part is then a sequence, even if it holds one value.
    parts = [column.reshape(len(column), -1) for column in columns.values()]
    if values == "list":
        rows = zip(*(part.tolist() for part in parts), strict=True)
    else:
        rows = zip(*parts, strict=True)
    makers = [_float if column.dtype == np.float32 else _int64 for column in columns.values()]
    return [
        tf.train.Example(
            features=tf.train.Features(
                feature={key: make(part) for key, make, part in zip(keys, makers, row, strict=True)}
            )
        ).SerializeToString()
        for row in rows
    ]


def _float(values: NDArray | list[float]) -> tf.train.Feature:
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))


def _int64(values: NDArray | list[int]) -> tf.train.Feature:
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))

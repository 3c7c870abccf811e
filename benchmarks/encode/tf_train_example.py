"""tf.train.Example, built in Python and serialized: what TensorFlow's guides show.

Its repeated fields take arrays and lists; which is quicker depends on the version of protobuf.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from benchmarks.workloads import Columns

ROWS = {"tf_train_example": [{"values": "list"}, {"values": "array"}]}


def encode(batches: list[Columns], values: str) -> Iterator[list[bytes]]:
    makers = [_float if column.dtype == np.float32 else _int64 for column in batches[0].values()]
    for columns in batches:
        # [rows, values] each: a record's part is then a sequence, even if it holds one value.
        parts = [column.reshape(len(column), -1) for column in columns.values()]
        rows = zip(*(part.tolist() for part in parts) if values == "list" else parts, strict=True)
        yield [_record(columns, makers, row) for row in rows]


def _record(keys: Iterable[str], makers: list[Callable], row: tuple) -> bytes:
    feature = {key: make(part) for key, make, part in zip(keys, makers, row, strict=True)}
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def _float(values: NDArray | list[float]) -> tf.train.Feature:
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))


def _int64(values: NDArray | list[int]) -> tf.train.Feature:
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))

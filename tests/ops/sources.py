"""Datasets of every kind of element, for the laws."""

from __future__ import annotations

from collections import namedtuple

import ml_dtypes
import numpy as np
import pytest

from feedline import Dataset, Ragged

Point = namedtuple("Point", ["x", "y"])


def _numbers(dtype, *shape):
    return np.arange(int(np.prod((9, *shape)))).reshape(9, *shape).astype(dtype)


def _strings(*shape):
    strings = np.empty((9, *shape), object)
    strings.reshape(-1)[:] = [b"\0" * (i % 3) + b"x" * (i % 5) for i in range(strings.size)]
    return strings


RAGGED = Ragged(_numbers("int16"), [0, 2, 2, 5, 6, 6, 7, 9])

# Each has a few elements only: the laws restart at every one of them.
EQUAL_SHAPES = {
    "scalars": Dataset.range(9),
    "arrays": Dataset.from_tensor_slices(_numbers("float32", 2, 3)),
    "arrays of nothing": Dataset.from_tensor_slices(np.zeros((5, 0, 2))),
    "strings": Dataset.from_tensor_slices(_strings()),
    "arrays of strings": Dataset.from_tensor_slices(_strings(2, 1)),
    "every dtype": Dataset.from_tensor_slices(
        tuple(
            _numbers(dtype)
            for dtype in (
                *("bool", "int8", "uint16", "uint64", "float16", "float64", "complex64", "complex128"),
                *(ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.int4),
            )
        )
    ),
    "nested": Dataset.from_tensor_slices(
        {"b": (_numbers("int32"), None, Point(_strings(), {"z": _numbers("float64", 2)})), "a": ()}
    ),
    "streamed": Dataset.range(9).filter(lambda x: x != 4),
    "mapped": Dataset.range(9).map(lambda x: (x, {"text": str(x), "list": [int(x), 1]})),
    "none at all": Dataset.range(0),
}
OTHER_SHAPES = {
    "ragged": Dataset.from_tensor_slices((RAGGED, np.arange(7))),
    "ragged strings": Dataset.from_tensor_slices(Ragged(_strings(), [0, 0, 4, 9])),
    "ragged twice": Dataset.from_tensor_slices(Ragged(RAGGED, [0, 3, 3, 7])),
    "whole ragged": Dataset.from_tensors(RAGGED).repeat(3),
    "changing lengths": Dataset.range(7).map(lambda i: np.full((i % 3, 2), i)),
    "changing ranks": Dataset.range(7).map(lambda i: np.full((2,) * (i % 3), i)),
}
SOURCES = EQUAL_SHAPES | OTHER_SHAPES

every_source = pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES.keys())
every_equal_source = pytest.mark.parametrize("source", EQUAL_SHAPES.values(), ids=EQUAL_SHAPES.keys())

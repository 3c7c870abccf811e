"""What a value is, as far as features care: its dtype and shape. And the feature that holds such values.

How each is stored (docs/decisions/0014):

    int, float, bool, bytes, str, Python lists    an int64, float or bytes list
    NumPy scalars that int64 or float32 holds     the same; their dtype is told
    1-d arrays of int64, int32, float32           the same
    arrays of strings                             a bytes list
    all other arrays and scalars                  their bytes; with more than one dimension, their shape, too
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from feedline.column import Bytes, Ragged
from feedline.errors import UsageError
from feedline.records.encode import kind_of, unfit
from feedline.records.features import (
    ARRAY_DTYPES,
    Feature,
    FixedLenFeature,
    ListFeature,
    RawFeature,
    VarLenFeature,
    list_dtype,
)
from feedline.spec import STRING

_BOOL, _INT64, _INT32, _FLOAT32 = map(np.dtype, (np.bool_, np.int64, np.int32, np.float32))
_USUAL = {int: _INT64, float: _FLOAT32, str: STRING, bytes: STRING}
_PLAIN = frozenset((int, float, bool, bytes, str))


class Sort(NamedTuple):
    dtype: np.dtype[Any] | None  # None of an empty list
    shape: tuple[int, ...]
    is_loose: bool = False  # Python's numbers: they take the dtype of other examples, if it holds them

    def __str__(self) -> str:
        name = "no values" if self.dtype is None else "string" if self.dtype == STRING else self.dtype.name
        return f"{name} of shape {self.shape}" if self.shape else f"one {name}"


def sort_of(value: Any) -> Sort:
    """
    >>> str(sort_of([[1, 2, 3]])), str(sort_of(np.uint8(7))), str(sort_of([]))
    ('int64 of shape (1, 3)', 'one uint8', 'no values of shape (0,)')
    """
    if isinstance(value, np.ndarray | np.generic):
        return _sort_of_array(value)
    if isinstance(value, bytes | str | bytearray | memoryview):
        return Sort(STRING, ())
    if isinstance(value, bool):
        return Sort(_BOOL, (), True)
    if isinstance(value, int):
        return Sort(_INT64, (), True)
    if isinstance(value, float):
        return Sort(_FLOAT32, (), True)
    if isinstance(value, list | tuple):
        return _sort_of_list(value)
    if hasattr(value, "__array__"):
        return _sort_of_array(np.asarray(value))
    return Sort(None, ())  # nothing that can be written: encode says so


def _sort_of_array(array: Any) -> Sort:
    if array.dtype.kind in "SUT":
        return Sort(STRING, array.shape)
    if array.dtype.hasobject:
        first = sort_of(array.flat[0]) if array.size else Sort(None, ())
        return Sort(first.dtype, array.shape, first.is_loose)
    return Sort(array.dtype.newbyteorder("="), array.shape)


def _sort_of_list(value: list[Any] | tuple[Any, ...]) -> Sort:
    if not value:
        return Sort(None, (0,))
    if (usual := _USUAL.get(type(value[0]))) is not None:
        return Sort(usual, (len(value),), usual is not STRING)
    first = sort_of(value[0])
    if isinstance(value[0], np.ndarray) and value[0].ndim and first.dtype != STRING:
        return Sort(first.dtype, (len(value), *first.shape))
    dtype = first.dtype
    if dtype is not None and dtype != STRING and _is_storable(dtype):
        # As encode has it. What a list holds is an int or a float, NumPy's or Python's.
        is_bool = dtype == _BOOL and all(sort_of(item).dtype == _BOOL for item in value)
        dtype = _BOOL if is_bool else _FLOAT32 if kind_of(dtype) == "float32" else _INT64
    return Sort(dtype, (len(value), *first.shape), dtype != STRING)


def sorts_of_rows(column: Any) -> list[Sort]:
    """All that differ, the first row's first."""
    if isinstance(column, list | tuple):
        kinds = set(map(type, column))
        if kinds <= _PLAIN:
            return [sort_of(1 if kinds == {bool, int} else column[0])]
        return list(dict.fromkeys(map(sort_of, column)))
    if isinstance(column, Ragged):
        (entry,) = sorts_of_rows(column._values)
        lengths = [int(column.lengths[0]), *map(int, np.unique(column.lengths))]
        return [
            Sort(entry.dtype, (length, *entry.shape), entry.is_loose) for length in dict.fromkeys(lengths)
        ]
    if isinstance(column, Bytes):
        return [Sort(STRING, column.shape)]
    whole = _sort_of_array(np.asarray(column))
    return [Sort(whole.dtype, whole.shape[1:], whole.is_loose)]


def feature_for(sort: Sort) -> Feature | None:
    """What reads such a value back; None if it has none.

    >>> feature_for(sort_of(np.zeros((32, 32, 3), np.uint8)))
    RawFeature((32, 32, 3), 'uint8')
    """
    dtype, shape, is_loose = sort
    if dtype is None:
        return None
    is_array = not is_loose and dtype.name in ARRAY_DTYPES
    if is_array and (len(shape) > 1 or (shape and dtype not in (_INT64, _INT32, _FLOAT32))):
        return RawFeature(shape, dtype)
    if is_array and list_dtype(dtype) is None:
        return RawFeature(shape, dtype)
    if (is_array and dtype not in (_INT64, _FLOAT32)) or (dtype == _BOOL and len(shape) < 2):
        return ListFeature([None] if shape == (0,) else shape, dtype)
    kind = "string" if dtype == STRING else kind_of(dtype)
    return VarLenFeature(kind) if shape == (0,) else FixedLenFeature(shape, kind)


def check_storable(key: str, sort: Sort) -> None:
    """UsageError if writers have no way to store such values."""
    dtype = sort.dtype
    if dtype is None or _is_storable(dtype):
        return
    if dtype.kind == "f":
        raise UsageError(
            f"feature {key!r}: {dtype} would lose digits, because the widest float that can be stored is "
            "float64. Convert it: np.float64(value), or array.astype(np.float64)."
        )
    raise unfit(key, f"{'an array' if sort.shape else 'a value'} of {dtype}")


def _is_storable(dtype: np.dtype[Any]) -> bool:
    is_wide_float = dtype.kind == "f" and dtype.itemsize > 8
    return dtype.name in ARRAY_DTYPES or (kind_of(dtype) is not None and not is_wide_float)


def holds(dtype: np.dtype[Any], sort: Sort) -> bool:
    """Whether a feature of this dtype holds such values, as far as dtypes tell: Python's numbers, and float64
    that is to be a float list, have to be looked at one by one."""
    if sort.dtype is None or dtype == sort.dtype:
        return True
    if STRING in (dtype, sort.dtype) or kind_of(dtype) != kind_of(sort.dtype):
        return False
    if sort.is_loose:
        return dtype != _BOOL
    return kind_of(dtype) == dtype.name or np.can_cast(sort.dtype, dtype, "safe")

"""Examples and columns as the encoder takes them: arrays that are stored as bytes are bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from feedline.column import Bytes, Ragged
from feedline.errors import SchemaError
from feedline.records.feature_texts import Known
from feedline.records.features import FixedLenFeature, ListFeature, RawFeature, VarLenFeature
from feedline.records.raw_arrays import narrowed, shape_key, to_bytes, to_rows
from feedline.spec import STRING
from feedline.write.sorts import sorts_of_rows

_BYTES = (bytes, bytearray, memoryview)
_FLOAT32 = np.dtype(np.float32)
_LOST = (
    "Nothing of this example was written. Earlier examples are stored as float32. Convert this value to\n"
    "float32, or make them all float64 arrays."
)
_REMEDY = "Nothing of this example was written. Make all examples alike, or convert this one."


class Storing:
    """How examples with these features are stored.

    `are_given`: by the user. Then no shapes are stored that a reader does not need.
    """

    def __init__(self, features: Known, *, are_given: bool) -> None:
        self._raw: dict[str, RawFeature] = {}
        self._narrow: dict[str, ListFeature] = {}
        self._with_shape: set[str] = set()
        self._floats: list[str] = []
        for key, feature in features.items():
            if isinstance(feature, FixedLenFeature | VarLenFeature):
                if feature.dtype == _FLOAT32 and not are_given:
                    self._floats.append(key)
            elif isinstance(feature, ListFeature):
                self._narrow[key] = feature
            elif isinstance(feature, RawFeature):
                self._raw[key] = feature
                if feature.needs_shape or (len(feature.shape) > 1 and not are_given):
                    self._with_shape.add(key)
        self.converts = bool(self._raw or self._narrow)
        """Whether examples may have to be changed, or refused."""
        for key in self._with_shape:
            if shape_key(key) in features:
                raise SchemaError(
                    f"its shape is stored as {shape_key(key)!r}, and the example has a feature of that name",
                    feature=key,
                    remedy="Nothing of this example was written. Give that feature another name.",
                )

    def check_digits(self, values: Mapping[str, Any]) -> None:
        """SchemaError for an array of float64 whose digits a float list would lose."""
        for key in self._floats:
            value = values.get(key)
            entries = value._values if isinstance(value, Ragged) else value
            if isinstance(entries, np.ndarray | np.generic) and entries.dtype == np.float64:
                narrowed(key, np.asarray(entries), _FLOAT32, _LOST)

    def example(self, example: Mapping[str, Any]) -> Mapping[str, Any]:
        for key, narrow in self._narrow.items():
            value = example.get(key)
            if value is not None and not _is_array(value):
                _exact(key, value, narrow.dtype)
        if not self._raw:
            return example
        stored = dict(example)
        for key, feature in self._raw.items():
            value = stored.get(key)
            if value is None or isinstance(value, _BYTES):
                continue
            array = value if _is_array(value) else _exact(key, value, feature.dtype)
            stored[key] = to_bytes(array, feature.dtype)
            if key in self._with_shape:
                stored[shape_key(key)] = np.array(array.shape)
        return stored

    def columns(self, columns: Mapping[str, Any]) -> Mapping[str, Any]:
        for key, narrow in self._narrow.items():
            column = columns.get(key)
            if column is not None and not isinstance(column, Ragged) and not _is_array(column):
                _exact(key, column, narrow.dtype)
        if not self._raw:
            return columns
        stored = dict(columns)
        for key, feature in self._raw.items():
            column = stored.get(key)
            if column is None or isinstance(column, Bytes) or sorts_of_rows(column)[0].dtype == STRING:
                continue
            stored[key], shapes = _raw_column(key, column, feature.dtype)
            if key in self._with_shape:
                stored[shape_key(key)] = shapes
        return stored


def _is_array(value: Any) -> bool:
    """Whether its dtype says what it holds, and was checked."""
    return isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject


def _exact(key: str, value: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Python's numbers as an array; SchemaError if the dtype does not hold them."""
    try:
        array = np.asarray(value)
        if array.dtype.hasobject:
            array = np.asarray(array.tolist())
    except ValueError:
        raise SchemaError(
            "the lists in it have different lengths", feature=key, remedy="Make an array of each row."
        ) from None
    if array.dtype.hasobject:  # integers of more than 64 bits
        raise SchemaError(f"holds a number that does not fit {dtype.name}", feature=key, remedy=_REMEDY)
    if not array.size or np.can_cast(array.dtype, dtype, "safe"):
        return array.astype(dtype, copy=False)
    return narrowed(key, array, dtype, _REMEDY)


def _raw_column(key: str, column: Any, dtype: np.dtype[Any]) -> tuple[Bytes, npt.NDArray[np.int64]]:
    """The bytes of each row, and its shape."""
    if isinstance(column, Ragged):
        entries, offsets = np.asarray(column._values), column._offsets
        data = to_rows(entries, len(entries), dtype)
        inner = np.broadcast_to(np.array(entries.shape[1:], np.int64), (len(column), entries.ndim - 1))
        return Bytes(data.data, data.offsets[offsets]), np.column_stack([np.diff(offsets), inner])
    if isinstance(column, list | tuple) and all(map(_is_array, column)):
        return Bytes.of([to_bytes(row, dtype) for row in column]), np.array([row.shape for row in column])
    array = column if _is_array(column) else _exact(key, column, dtype)
    return to_rows(array, len(array), dtype), np.tile(np.array(array.shape[1:], np.int64), (len(array), 1))


def regular(column: Any) -> Any:
    """A list of arrays as one array, if they have one shape, or as a Ragged, if that is only their length."""
    if not isinstance(column, list | tuple) or not column:
        return column
    if not all(isinstance(row, np.ndarray | np.generic) and row.dtype.kind not in "SUTO" for row in column):
        return column
    if len({row.dtype for row in column}) > 1:
        return column
    if len({row.shape for row in column}) == 1:
        return np.stack(column)
    if all(row.ndim == 1 for row in column):
        return Ragged(np.concatenate(column), np.cumsum([0, *map(len, column)]))
    return column

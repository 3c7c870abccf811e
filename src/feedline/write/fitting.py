"""Does an example fit those before it? It is asked before any of it is written.

The features are given, or those of the first example: numbers and strings stay single ones, lists and
arrays of one dimension may change their length, arrays of more dimensions keep their shape.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from feedline import _native
from feedline.column import Bytes, Ragged
from feedline.errors import SchemaError, UsageError
from feedline.records.encode import encode, encoded, encoder_of, kind_of
from feedline.records.features import (
    Feature,
    FixedLenFeature,
    FixedLenSequenceFeature,
    RawFeature,
    SequenceFeatures,
    TensorFeature,
    VarLenFeature,
    normalize,
)

_MOST_KNOWN = 10_000
_SINGLE = frozenset((int, float, bool, bytes, str, np.int64, np.float32, np.float64))
_UNKNOWN = (None,)


class _Sort(NamedTuple):
    """What a value is, as far as a feature cares."""

    kind: str | None  # int64, float32 or string; None of an empty list
    shape: tuple[int, ...] | None  # None: another one in each row
    is_nested: bool = False  # are the entries of a row arrays?

    def __str__(self) -> str:
        if self.shape is None:
            shape = "several shapes" if self.is_nested else "any length"
        else:
            shape = f"shape {self.shape}"
        return f"{self.kind or 'no values'} of {shape}" if self.shape != () else f"one {self.kind}"


class Fitting:
    def __init__(self, features: Mapping[str, Any] | None = None) -> None:
        self._are_given = features is not None
        self._lock = Lock()
        self._known: set[tuple[Any, ...]] = set()
        self.features: dict[str, Feature | None] | None = None
        """By key; None of one without values so far. None of all when there was no example yet."""
        if features is not None:
            given = normalize(features)
            if isinstance(given, SequenceFeatures):
                raise UsageError(
                    "features: writers make tf.train.Example of dicts, and SequenceFeatures is of others.\n"
                    "  Serialize SequenceExamples yourself, and write their bytes."
                )
            self.features = dict(given)

    def record(self, example: Mapping[str, Any] | bytes) -> bytes:
        """The example as bytes; bytes are taken as they are."""
        if isinstance(example, bytes):
            return example
        if isinstance(example, bytearray | memoryview):
            return bytes(example)
        if not isinstance(example, Mapping):
            raise UsageError(
                f"write: give a dict of features, or the bytes of a record, not {type(example).__name__}."
            )
        if not self._is_known(example):
            self._check({key: _sort(value) for key, value in example.items() if value is not None})
            self._remember(example)
        return encode(example)

    def _is_known(self, example: Mapping[str, Any]) -> bool:
        """Is it, by a glance, like one that fitted? To look closer takes longer than to encode it."""
        for key, value in example.items():
            if (key, *_glance(value)) not in self._known:
                return False
        return self.features is not None and len(example) == len(self.features)

    def _remember(self, example: Mapping[str, Any]) -> None:
        if len(self._known) < _MOST_KNOWN:
            self._known.update(
                (key, *glance) for key, value in example.items() if (glance := _glance(value)) != _UNKNOWN
            )

    def records(
        self, columns: Mapping[str, Any] | Sequence[bytes] | Bytes
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint64]]:
        """Those of all rows back to back, and the rows + 1 offsets between which they lie."""
        if isinstance(columns, Mapping):
            return encoded(self.encoder(columns))
        if isinstance(columns, Bytes):
            whole = columns.normal()
        elif isinstance(columns, list | tuple) and all(isinstance(record, bytes) for record in columns):
            whole = Bytes.of(columns)
        else:
            raise UsageError(
                "write_batch: give a dict of columns, or a list of records as bytes, "
                f"not {type(columns).__name__}."
            )
        return whole.data, np.ascontiguousarray(whole.offsets).view(np.uint64)

    def encoder(self, columns: Mapping[str, Any]) -> _native.ExampleEncoder:
        """What encodes the rows of the columns, which fit."""
        encoder = encoder_of(columns)
        given = {key: column for key, column in columns.items() if column is not None}
        if len(next(iter(given.values()))):
            self._check({key: _sort_of_rows(column) for key, column in given.items()})
        return encoder

    def _check(self, sorts: dict[str, _Sort]) -> None:
        if self.features is None:
            with self._lock:
                if self.features is None:
                    self._infer(sorts)
                    return
        for key, sort in sorts.items():
            feature = self.features.get(key)
            if feature is None:
                self._learn(key, sort)
            elif not _fits(sort, feature):
                self._refuse(key, f"is {sort} here, and {self._source} {_told(feature)}")
        if len(sorts) < len(self.features):
            for key, feature in self.features.items():
                if key not in sorts and feature is not None and _is_needed(feature):
                    self._refuse(key, f"is missing, and {self._source} {_told(feature)}")

    def _infer(self, sorts: dict[str, _Sort]) -> None:
        for key, sort in sorts.items():
            if sort.shape is None and sort.is_nested:
                self._refuse(key, f"is {sort} here, and only lists of single values may change")
        self.features = {key: _inferred(sort) for key, sort in sorts.items()}

    def _learn(self, key: str, sort: _Sort) -> None:
        assert self.features is not None
        if key not in self.features:
            self._refuse(key, f"is {sort}, and {self._source} nothing of that name")
        self.features[key] = _inferred(sort)

    @property
    def _source(self) -> str:
        return "features says" if self._are_given else "the first example had"

    def _refuse(self, key: str, what: str) -> NoReturn:
        raise SchemaError(
            f"it {what}",
            feature=key,
            remedy="Nothing of this example was written. Make all examples alike, or convert this one."
            if self._are_given
            else "Nothing of this example was written. Make all examples alike: a list, which may have any "
            "length, stays one; what is only sometimes there is an empty list in the first.",
        )


def _glance(value: Any) -> tuple[Any, ...]:
    """What tells quickly that a value is like another; of a list, nothing does."""
    kind = type(value)
    if kind is np.ndarray:
        return value.dtype, value.shape
    return (kind,) if kind in _SINGLE else _UNKNOWN


def _sort(value: Any) -> _Sort:
    if isinstance(value, np.ndarray | np.generic):
        return _Sort(kind_of(value.dtype), value.shape)
    if isinstance(value, bytes | str | bytearray | memoryview):
        return _Sort("string", ())
    if isinstance(value, int):
        return _Sort("int64", ())
    if isinstance(value, float):
        return _Sort("float32", ())
    if isinstance(value, list | tuple):
        if not value:
            return _Sort(None, (0,))
        inner = _sort(value[0])
        return _Sort(inner.kind, None if inner.shape is None else (len(value), *inner.shape))
    array = np.asarray(value)
    return _Sort(kind_of(array.dtype), array.shape)


def _sort_of_rows(column: Any) -> _Sort:
    if isinstance(column, list | tuple):
        return _sort(column[0])
    if isinstance(column, Ragged):
        entry = _sort_of_rows(column._values)
        if not entry.shape:
            return _Sort(entry.kind, None)
        lengths = np.unique(column.lengths)
        shape = (int(lengths[0]), *entry.shape) if len(lengths) == 1 else None
        return _Sort(entry.kind, shape, is_nested=True)
    if isinstance(column, Bytes):
        return _Sort("string", column.shape)
    array = np.asarray(column)
    return _Sort(kind_of(array.dtype), array.shape[1:])


def _inferred(sort: _Sort) -> Feature | None:
    if sort.kind is None:
        return None
    if sort.shape is None or len(sort.shape) == 1:
        return VarLenFeature(sort.kind)
    return FixedLenFeature(sort.shape, sort.kind)


def _fits(sort: _Sort, feature: Feature) -> bool:
    if isinstance(feature, RawFeature | TensorFeature):
        return sort[:2] == ("string", ())
    if sort.kind is not None and sort.kind != _kind(feature):
        return False
    if isinstance(feature, FixedLenFeature):
        # The reader gives flat values their shape.
        if sort.shape is None or 1 not in (len(sort.shape), len(feature.shape)):
            return sort.shape == feature.shape
        return math.prod(sort.shape) == math.prod(feature.shape)
    if isinstance(feature, FixedLenSequenceFeature):
        return sort.shape is None or not math.prod(sort.shape) % max(1, math.prod(feature.shape))
    return sort.shape != () or isinstance(feature, VarLenFeature)


def _kind(feature: Feature) -> str:
    return "string" if feature.dtype == object else feature.dtype.name


def _is_needed(feature: Feature) -> bool:
    if isinstance(feature, FixedLenFeature):
        return feature.default_value is None
    return isinstance(feature, RawFeature | TensorFeature)


def _told(feature: Feature) -> str:
    if isinstance(feature, FixedLenFeature):
        return str(_Sort(_kind(feature), feature.shape))
    if isinstance(feature, VarLenFeature):
        return f"{_kind(feature)} of any length"
    return repr(feature)

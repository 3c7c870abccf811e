"""Does an example fit those before it? It is asked before any of it is written.

The features are given, or those of the first example: numbers and strings stay single ones, lists and
arrays of one dimension may change their length, arrays of more dimensions keep their shape. It makes no
difference whether examples come one by one or as rows of columns.
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
    RaggedFeature,
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
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.kind or 'no values'} of shape {self.shape}" if self.shape else f"one {self.kind}"


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
            self.features = {_key_in_record(key, feature): feature for key, feature in given.items()}

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
        record = encode(example)  # first: what cannot be encoded tells nothing of the others
        if not self._is_known(example):
            self._check({key: [_sort(value)] for key, value in example.items() if value is not None})
            self._remember(example)
        return record

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
        encoder = encoder_of(columns)  # which checks that the rows of a list are alike
        given = {key: column for key, column in columns.items() if column is not None}
        if len(next(iter(given.values()))):
            self._check({key: _sorts_of_rows(column) for key, column in given.items()})
        return encoder

    def _check(self, found: dict[str, list[_Sort]]) -> None:
        """Of each key all sorts of values. What is learned of them is kept only if all fit."""
        with self._lock:
            features = self.features
            if features is None:
                self.features = {key: self._inferred(key, sorts) for key, sorts in found.items()}
                return
            learned = {}
            for key, sorts in found.items():
                feature = features.get(key)
                if feature is not None:
                    for sort in sorts:
                        if not _fits(sort, feature):
                            self._refuse(key, f"is {sort} here, and {self._source} {_told(feature)}")
                elif key in features:
                    learned[key] = self._inferred(key, sorts)
                else:
                    self._refuse(key, f"is {sorts[0]}, and {self._source} nothing of that name")
            if len(found) < len(features):
                for key, feature in features.items():
                    if key not in found and feature is not None and _is_needed(feature):
                        self._refuse(key, f"is missing, and {self._source} {_told(feature)}")
            features.update(learned)

    def _inferred(self, key: str, sorts: list[_Sort]) -> Feature | None:
        kind, shape = sorts[0]
        if kind is None:
            return None
        if len(shape) == 1:
            return VarLenFeature(kind)
        if len(sorts) > 1:
            told = " and ".join(map(str, sorts[:2]))
            self._refuse(key, f"is {told} here, and only lists of single values may change their length")
        return FixedLenFeature(shape, kind)

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


def _key_in_record(key: str, feature: Feature) -> str:
    return feature.value_key or key if isinstance(feature, RaggedFeature) else key


def _glance(value: Any) -> tuple[Any, ...]:
    """What tells quickly that a value is like another; of a list or an array of objects, nothing does."""
    kind = type(value)
    if kind is np.ndarray:
        return _UNKNOWN if value.dtype.hasobject else (value.dtype, value.shape)
    return (kind,) if kind in _SINGLE else _UNKNOWN


def _sort(value: Any) -> _Sort:
    if isinstance(value, np.ndarray | np.generic):
        return _Sort(_kind_of(value), value.shape)
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
        return _Sort(inner.kind, (len(value), *inner.shape))
    return _sort(np.asarray(value))


def _kind_of(array: Any) -> str | None:
    if not array.dtype.hasobject:
        return kind_of(array.dtype)
    return _sort(array.flat[0]).kind if array.size else None


def _sorts_of_rows(column: Any) -> list[_Sort]:
    """All that differ, which only those of a Ragged do."""
    if isinstance(column, list | tuple):
        return [_sort(column[0])]
    if isinstance(column, Ragged):
        (entry,) = _sorts_of_rows(column._values)
        return [_Sort(entry.kind, (int(length), *entry.shape)) for length in np.unique(column.lengths)]
    if isinstance(column, Bytes):
        return [_Sort("string", column.shape)]
    array = np.asarray(column)
    return [_Sort(_kind_of(array), array.shape[1:])]


def _fits(sort: _Sort, feature: Feature) -> bool:
    if isinstance(feature, RawFeature | TensorFeature):
        return sort == ("string", ())
    if sort.kind is not None and sort.kind != _kind(feature):
        return False
    if isinstance(feature, FixedLenFeature):
        # The reader gives flat values their shape.
        if 1 not in (len(sort.shape), len(feature.shape)):
            return sort.shape == feature.shape
        return math.prod(sort.shape) == math.prod(feature.shape)
    if isinstance(feature, FixedLenSequenceFeature):
        return not math.prod(sort.shape) % max(1, math.prod(feature.shape))
    return True


def _kind(feature: Feature) -> str:
    return "string" if feature.dtype == object else feature.dtype.name


def _is_needed(feature: Feature) -> bool:
    if isinstance(feature, FixedLenFeature):
        return feature.default_value is None
    if isinstance(feature, FixedLenSequenceFeature):
        return not feature.allow_missing
    return isinstance(feature, RawFeature | TensorFeature)


def _told(feature: Feature) -> str:
    if isinstance(feature, FixedLenFeature):
        return str(_Sort(_kind(feature), feature.shape))
    if isinstance(feature, VarLenFeature):
        return f"{_kind(feature)} of any length"
    return repr(feature)

"""Does an example fit those before it? It is asked before any of it is written.

The features are given, or those of the first example: numbers and strings stay single ones, arrays keep their
dtype and number of dimensions. Lists and arrays may change their size; lists of lists keep their shape. It
makes no difference whether examples come one by one or as rows of columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from feedline import _native
from feedline.column import Bytes
from feedline.errors import SchemaError, UsageError
from feedline.records.common_features import common_feature, optional, rank_of
from feedline.records.encode import checked_columns, encode, encoded, encoder_of, kind_of
from feedline.records.feature_texts import Known
from feedline.records.features import (
    Feature,
    FixedLenFeature,
    FixedLenSequenceFeature,
    ListFeature,
    RaggedFeature,
    RawFeature,
    SequenceFeatures,
    TensorFeature,
    VarLenFeature,
    normalize,
)
from feedline.spec import STRING, dtype_name
from feedline.write.sorts import Sort, check_storable, feature_for, holds, sort_of, sorts_of_rows
from feedline.write.storing import Storing, regular

_MOST_KNOWN = 10_000
_SINGLE = frozenset((int, float, bool, bytes, str, *(np.dtype(kind).type for kind in "?bhilqBHILQefdFD")))
_UNKNOWN = (None,)

_T = TypeVar("_T")

Share = Callable[[Known | None, Known], Known | None]
"""(what was known, what is known now) -> None, or, if others knew more, what they know."""


class Fitting:
    def __init__(self, features: Mapping[str, Any] | None = None, share: Share | None = None) -> None:
        """`features` as the user gave them. `share` tells other processes what is learned, before any example
        that it was learned from is written."""
        self._are_given = features is not None
        self._share = share
        self._lock = Lock()
        # What fitted, at a glance and as a Sort. It stays so: features only come to hold more.
        self._known: set[tuple[Any, ...]] = set()
        self._sorts: set[tuple[str, Sort]] = set()
        self._storing = Storing({}, are_given=False)
        self._features: Known | None = None
        if features is not None:
            given = normalize(features)
            if isinstance(given, SequenceFeatures):
                raise UsageError(
                    "features: Writers encode dicts as tf.train.Example; SequenceFeatures is for reading "
                    "SequenceExamples.\n"
                    "  Serialize SequenceExamples yourself, and write their bytes."
                )
            self.features = {_key_in_record(key, feature): feature for key, feature in given.items()}

    @property
    def features(self) -> Known | None:
        """By key; None of one without values so far. None of all when there was no example yet."""
        return self._features

    @features.setter
    def features(self, features: Known | None) -> None:
        if features is not None:
            self._storing = Storing(features, are_given=self._are_given)
        self._features = features

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
        if self._is_known(example):
            return encode(self._storing.example(example) if self._storing.converts else example)
        found = {key: [sort_of(value)] for key, value in example.items() if value is not None}

        def encode_with(storing: Storing) -> bytes:
            storing.check_digits(example)
            return encode(storing.example(example))

        record = self._fitted(found, encode_with)
        self._remember(example)
        return record

    def _is_known(self, example: Mapping[str, Any]) -> bool:
        """Is it, by a glance, like one that fitted? To look closer takes longer than to encode it."""
        for key, value in example.items():
            if (key, *_glance(value)) not in self._known:
                return False
        return self._features is not None and len(example) == len(self._features)

    def _remember(self, example: Mapping[str, Any]) -> None:
        if len(self._known) < _MOST_KNOWN:
            features = self.features or {}
            for key, value in example.items():
                glance = _glance(value)
                if glance != _UNKNOWN and not _needs_look(features.get(key), value):
                    self._known.add((key, *glance))

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
        given, rows = checked_columns(columns)
        if not rows:
            return encoder_of(given)
        given = {key: regular(column) for key, column in given.items()}
        found = {key: sorts_of_rows(column) for key, column in given.items()}

        def encode_with(storing: Storing) -> _native.ExampleEncoder:
            storing.check_digits(given)
            return encoder_of(storing.columns(given))

        return self._fitted(found, encode_with)

    def _fitted(self, found: dict[str, list[Sort]], encode: Callable[[Storing], _T]) -> _T:
        """Encode an example that fits. What it tells of the features is kept only if it can be encoded."""
        for key, sorts in found.items():
            for sort in sorts:
                check_storable(key, sort)
        while True:
            known = self.features
            learned = self._learned(known, found)
            storing = self._storing if learned is known else Storing(learned, are_given=self._are_given)
            made = encode(storing)
            if learned is known or self._adopt(known, learned):
                return made

    def _adopt(self, known: Known | None, learned: Known) -> bool:
        """False when another thread or process was faster, and the example must be looked at again."""
        with self._lock:
            if self.features is not known:
                return False
            others = None if self._share is None else self._share(known, learned)
            self.features = learned if others is None else others
            return others is None

    def _learned(self, known: Known | None, found: dict[str, list[Sort]]) -> Known:
        """What is known after these: of each key all sorts of values. The same object if that is not more."""
        if known is None:
            return {key: self._widened(key, feature_for(sorts[0]), sorts) for key, sorts in found.items()}
        changed: Known = {}
        for key, sorts in found.items():
            if all((key, sort) in self._sorts for sort in sorts):
                continue
            if key not in known:
                self._refuse(key, f"is {sorts[0]}, and {self._source} nothing of that name")
            feature = self._widened(key, known[key], sorts)
            if feature != known[key]:
                changed[key] = feature
            elif feature is not None and len(self._sorts) < _MOST_KNOWN:
                self._sorts.update((key, sort) for sort in sorts)
        if len(found) < len(known):
            for key, feature in known.items():
                if key not in found and feature is not None:
                    if self._are_given or not _is_row(feature):
                        self._require(key, feature)
                    elif optional(feature) != feature:
                        changed[key] = optional(feature)
        return known | changed if changed else known

    def _widened(self, key: str, feature: Feature | None, sorts: list[Sort]) -> Feature | None:
        """The feature that holds these, too."""
        for sort in sorts:
            if feature is not None and self._are_given:
                wider = feature if _fits(sort, feature) else None
            elif feature is not None:
                wider = _admitting(feature, sort)
            elif (late := feature_for(sort)) is None:
                continue
            else:
                wider = optional(late)  # those before had no values
            if wider is None:
                assert feature is not None
                self._refuse(key, f"is {sort} here, and {self._source} {self._told(feature)}")
            feature = wider
        return feature

    def _require(self, key: str, feature: Feature) -> None:
        if _is_needed(feature):
            self._refuse(key, f"is missing, and {self._source} {self._told(feature)}")

    def _told(self, feature: Feature) -> str:
        if isinstance(feature, VarLenFeature):
            return f"{dtype_name(feature.dtype)} of any length"
        if self._are_given and not isinstance(feature, FixedLenFeature):
            return repr(feature)
        if not self._are_given and _is_row(feature):
            return f"{dtype_name(feature.dtype)} of any length"
        if isinstance(feature, RawFeature) and feature.shape:
            return f"{dtype_name(feature.dtype)} of {rank_of(feature)} dimensions"
        return str(Sort(feature.dtype, getattr(feature, "shape", ())))

    @property
    def _source(self) -> str:
        return "features says" if self._are_given else "the first example had"

    def _refuse(self, key: str, what: str) -> NoReturn:
        raise SchemaError(
            f"it {what}",
            feature=key,
            remedy="Nothing of this example was written. Make all examples alike, or convert this one."
            if self._are_given
            else "Nothing of this example was written. Use the same type in every example. If a feature is "
            "sometimes missing, write an empty list for it in the first example.",
        )


def _key_in_record(key: str, feature: Feature) -> str:
    return feature.value_key or key if isinstance(feature, RaggedFeature) else key


def _glance(value: Any) -> tuple[Any, ...]:
    """What tells quickly that a value is like another; of a list or an array of objects, nothing does."""
    kind = type(value)
    if kind is np.ndarray:
        return _UNKNOWN if value.dtype.hasobject else (value.dtype, value.shape)
    return (kind,) if kind in _SINGLE else _UNKNOWN


def _needs_look(feature: Feature | None, value: Any) -> bool:
    """Whether the digits of each such value have to be looked at (Storing.check_digits)."""
    is_list = isinstance(feature, FixedLenFeature | VarLenFeature) and feature.dtype == np.float32
    return is_list and getattr(value, "dtype", None) == np.float64


def _admitting(feature: Feature, sort: Sort) -> Feature | None:
    """The feature that holds these values, too; None if there is none.

    Arrays keep their dtype and their number of dimensions. Those of one dimension, and arrays that are stored
    as bytes, may change their size.
    """
    if not holds(feature.dtype, sort):
        return None
    shape, rank = sort.shape, rank_of(feature)
    if len(shape) != rank and math.prod(shape) == 1 and max(len(shape), rank) == 1:
        shape = (1,) * rank  # a single value is as good as a list of one
    if isinstance(feature, FixedLenFeature) and rank > 1:
        # The reader gives flat values their shape.
        is_flat = len(shape) == 1 and math.prod(shape) == math.prod(feature.shape)
        return feature if shape == feature.shape or is_flat else None
    if len(shape) != rank or (sort.dtype is None and rank != 1):
        return None
    if isinstance(feature, RawFeature | ListFeature):
        if all(told in (None, size) for told, size in zip(feature.shape, shape, strict=True)):
            return feature
        return common_feature(feature, type(feature)(shape, feature.dtype))
    is_so = isinstance(feature, VarLenFeature) or (
        isinstance(feature, FixedLenFeature) and shape == feature.shape
    )
    return feature if is_so else VarLenFeature(feature.dtype)


def _is_row(feature: Feature) -> bool:
    """Whether examples may lack it: a list that is empty."""
    return rank_of(feature) == 1


def _fits(sort: Sort, feature: Feature) -> bool:
    """Whether such values can be stored as the user says."""
    if isinstance(feature, RawFeature | TensorFeature) and sort == (STRING, (), False):
        return True
    if isinstance(feature, TensorFeature):
        return False
    if isinstance(feature, RawFeature | ListFeature):
        if not holds(feature.dtype, sort) or len(sort.shape) != len(feature.shape):
            return False
        return all(told in (None, size) for told, size in zip(feature.shape, sort.shape, strict=True))
    if sort.dtype is not None and kind_of(sort.dtype) != dtype_name(feature.dtype):
        return False
    if isinstance(feature, FixedLenFeature):
        # The reader gives flat values their shape.
        if 1 not in (len(sort.shape), len(feature.shape)):
            return sort.shape == feature.shape
        return math.prod(sort.shape) == math.prod(feature.shape)
    if isinstance(feature, FixedLenSequenceFeature):
        return not math.prod(sort.shape) % max(1, math.prod(feature.shape))
    return True


def _is_needed(feature: Feature) -> bool:
    if isinstance(feature, FixedLenFeature):
        return feature.default_value is None
    if isinstance(feature, FixedLenSequenceFeature):
        return not feature.allow_missing
    if isinstance(feature, RawFeature | ListFeature):
        return None not in feature.shape
    return isinstance(feature, TensorFeature)

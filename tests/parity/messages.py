"""Random Examples, ways to write one that a plain writer never takes, and how results are compared."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from hypothesis import strategies as st

from feedline.block import Ragged
from tests.records.corrupt import field, varint

KINDS = {"string": 1, "float32": 2, "int64": 3}  # and the number of its list in tf.train.Feature

_FLOATS = st.one_of(
    st.sampled_from([0.0, -0.0, float("inf"), float("-inf"), float("nan"), 2.0**-149, 3.4e38]),
    st.floats(width=32),
)
_INTS = st.one_of(st.sampled_from([0, -1, 2**63 - 1, -(2**63), 127, 128]), st.integers(-(2**63), 2**63 - 1))
_STRINGS = st.one_of(st.binary(max_size=8), st.just(b"\0" * 200))
VALUES = {"string": _STRINGS, "float32": _FLOATS, "int64": _INTS}

# A feature: its kind and values, or None for a tf.train.Feature in which no kind is set.
Value = tuple[str, list[Any]] | None


def values(dtype: str, count: int) -> st.SearchStrategy[list[Any]]:
    return st.lists(VALUES[dtype], min_size=count, max_size=count)


def any_value() -> st.SearchStrategy[Value]:
    kinds = st.sampled_from(sorted(KINDS))
    lists = kinds.flatmap(lambda kind: st.tuples(st.just(kind), st.lists(VALUES[kind], max_size=5)))
    return st.one_of(lists, st.none())


def to_feature(value: Value) -> tf.train.Feature:
    if value is None:
        return tf.train.Feature()
    kind, items = value
    if kind == "string":
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=items))
    if kind == "float32":
        return tf.train.Feature(float_list=tf.train.FloatList(value=items))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=items))


def to_example(features: dict[str, Value]) -> bytes:
    message = tf.train.Features(feature={key: to_feature(value) for key, value in features.items()})
    return tf.train.Example(features=message).SerializeToString()


def canonical(message: Any) -> bytes:
    """What was understood of a parsed message, as TensorFlow itself would write it.

    Its ops have a parser of their own, which refuses some of what protobuf allows.
    """
    message.DiscardUnknownFields()
    return message.SerializeToString()


class Writer:
    """Writes messages in the ways that protobuf allows and plain writers never take."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def example(self, features: dict[str, Value]) -> bytes:
        """Entries in any order, over several Features messages, some of them replaced by a later one."""
        entries = list(features.items())
        self._random.shuffle(entries)
        if entries and self._chance():
            entries.insert(0, (self._random.choice(entries)[0], ("int64", [666])))
        return self._split(1, [self._entry(key, self.feature(value)) for key, value in entries])

    def sequence_example(self, context: dict[str, Value], lists: dict[str, list[Value]]) -> bytes:
        entries = []
        for key, steps in lists.items():
            listed = b"".join(self._noise(4) + field(1, self.feature(step)) for step in steps)
            entries.append(self._entry(key, listed))
        return self.example(context) + self._noise(5) + self._split(2, entries)

    def feature(self, value: Value) -> bytes:
        """One list, or several that protobuf merges, perhaps after one of another kind that they replace."""
        if value is None:
            return self._noise(4)
        kind, items = value
        out = self._noise(4)
        if self._chance():
            other = "int64" if kind != "int64" else "float32"
            out += field(KINDS[other], self._list(other, [666]))
        for part in self._cut(items):
            out += field(KINDS[kind], self._list(kind, part)) + self._noise(4)
        return out

    def _entry(self, key: str, value: bytes) -> bytes:
        """A map entry: key and value in any order, and perhaps a key that a later one replaces.

        No unknown fields: of an entry with one, protobuf's implementations keep all or nothing.
        """
        parts = [field(1, key.encode()), field(2, value)]
        self._random.shuffle(parts)
        if self._chance():
            parts.insert(0, field(1, b"replaced"))
        return field(1, b"".join(parts))

    def _split(self, number: int, parts: list[bytes]) -> bytes:
        runs = [self._noise(5) + field(number, b"".join(run)) for run in self._cut(parts)]
        return b"".join(runs) + self._noise(5)

    def _list(self, kind: str, items: list[Any]) -> bytes:
        if kind == "string":
            return b"".join(field(1, item) + self._noise(2) for item in items)
        if kind == "float32":
            encoded, tag = [struct.pack("<f", item) for item in items], b"\x0d"
        else:
            encoded, tag = [varint(item) for item in items], b"\x08"
        out = b""
        for run in self._cut(encoded):
            unpacked = self._chance()
            out += self._noise(2)
            out += b"".join(tag + item for item in run) if unpacked else field(1, b"".join(run))
        return out

    def _cut(self, items: list[Any]) -> Iterator[list[Any]]:
        """The items in runs, mostly one."""
        at = self._random.randint(0, len(items)) if self._chance() else len(items)
        yield items[:at]
        if items[at:]:
            yield items[at:]

    def _noise(self, first_unused: int) -> bytes:
        """Now and then an unknown field, of every wire type."""
        if not self._chance():
            return b""
        number = self._random.choice([first_unused, 15, 16, 2**29 - 1])
        return self._random.choice(
            [
                varint(number << 3) + varint(-1),
                varint(number << 3 | 1) + b"\xff" * 8,
                field(number, b"unknown"),
                varint(number << 3 | 5) + b"\x80" * 4,
                varint(number << 3 | 3) + field(1, b"in a group") + varint(number << 3 | 4),
            ]
        )

    def _chance(self) -> bool:
        return self._random.random() < 0.15


def check_same(ours: Any, theirs: Any, feature: Any = None) -> None:
    """Is a value of feedline the one that TensorFlow gave, bit for bit?

    If the default value of `feature` holds a NaN, all NaNs count as equal: feedline replaces every NaN of a
    default by math.nan, and TensorFlow turns signalling NaNs of Python into quiet ones.
    """
    if isinstance(ours, Ragged):
        flat, offsets = _ragged_parts(theirs)
        np.testing.assert_array_equal(ours.offsets, offsets)
        check_same(ours.values, flat, feature)
        return
    if isinstance(theirs, tf.SparseTensor):
        theirs = theirs.values
    expected = theirs.numpy()
    if isinstance(expected, bytes):
        assert ours == expected
        return
    ours = np.asarray(ours)
    assert (ours.dtype, ours.shape) == (expected.dtype, expected.shape)
    if expected.dtype == object:
        assert ours.tolist() == expected.tolist()
    elif _has_nan_default(feature):
        both_nan = np.isnan(ours) & np.isnan(expected)
        assert ours[~both_nan].tobytes() == expected[~both_nan].tobytes()
    else:
        assert ours.tobytes() == expected.tobytes()


def _has_nan_default(feature: Any) -> bool:
    default = np.asarray(getattr(feature, "default_value", None))
    return default.dtype.kind == "f" and bool(np.isnan(default).any())


def _ragged_parts(theirs: Any) -> tuple[Any, Any]:
    """Values and row offsets of a RaggedTensor, or of a SparseTensor whose rows are filled from the left."""
    if isinstance(theirs, tf.RaggedTensor):
        return theirs.values, theirs.row_splits.numpy()
    counts = np.bincount(theirs.indices.numpy()[:, 0], minlength=int(theirs.dense_shape[0]))
    return theirs.values, np.concatenate([[0], np.cumsum(counts)])


def check_equal(one: Any, other: Any) -> None:
    """Are two values of feedline the same, bit for bit?"""
    if isinstance(one, Ragged):
        assert one.equals(other)
        return
    one, other = np.asarray(one), np.asarray(other)
    assert (one.dtype, one.shape) == (other.dtype, other.shape)
    assert one.tolist() == other.tolist() if one.dtype == object else one.tobytes() == other.tobytes()

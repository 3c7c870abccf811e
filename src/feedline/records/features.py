"""What the features of a tf.train.Example are: tf.io's names and arguments, checked when they are made.

Every dtype is kept as a NumPy dtype, `np.dtype(object)` standing for strings (a string is bytes here);
every default as plain Python values, so that features compare, hash and pickle. tf.io's own objects are
recognised by their class names: TensorFlow is never imported.
"""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from feedline.errors import UsageError
from feedline.spec import STRING, as_dtype

_INT32: np.dtype[Any] = np.dtype(np.int32)
ARRAY_DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128", "bfloat16"),
    *("float8_e5m2", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e4m3b11fnuz", "float8_e5m2fnuz"),
)


class Feature:
    """One feature of a record; the classes below say of what sort."""

    dtype: np.dtype[Any]

    def _values(self) -> tuple[Any, ...]:
        return tuple(vars(self).values())  # in the order of the arguments: every __init__ sets them so

    # Not dataclass's own __eq__: since Python 3.13 it compares field by field, so that NaN differs from NaN.
    # A tuple asks `is` first, and a default NaN is always math.nan.
    # The repr tells a default of -0.0 from one of 0.0.
    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, type(self))
            and self._values() == other._values()
            and repr(getattr(self, "default_value", None)) == repr(getattr(other, "default_value", None))
        )

    def __hash__(self) -> int:
        return hash((type(self), self._values()))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._values()

    def __repr__(self) -> str:
        """The code that makes it again, without the arguments that have their default value."""
        words = []
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            if field.default is dataclasses.MISSING:
                words.append(_text(value))
            elif value != field.default:
                words.append(f"{field.name}={_text(value)}")
        return f"{type(self).__name__}({', '.join(words)})"


@dataclass(frozen=True, init=False, eq=False, repr=False)
class FixedLenFeature(Feature):
    """The same number of values in every record; a missing one takes the default, if there is one.

    A scalar default fills the whole shape.

    >>> FixedLenFeature([28, 28], np.float32, default_value=0)
    FixedLenFeature((28, 28), 'float32', default_value=0.0)
    >>> FixedLenFeature([], "string")
    FixedLenFeature((), 'string')
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    default_value: Any = None

    def __init__(self, shape: Any, dtype: Any, default_value: Any = None) -> None:
        name = type(self).__name__
        dims, kind = _known_shape(name, shape), _list_dtype(name, dtype)
        if default_value is not None:
            default = _default_array(name, default_value, kind)
            if default.ndim and default.size != math.prod(dims):
                raise UsageError(
                    f"{name}: the default_value has shape {default.shape}, the feature {dims}. "
                    "Give a scalar, or a default of the feature's shape."
                )
            default_value = _plain(default.reshape(dims) if default.ndim else default)
        vars(self).update(shape=dims, dtype=kind, default_value=default_value)

    def default_array(self) -> npt.NDArray[Any] | None:
        """The default in the feature's full shape and dtype, or None when a missing feature is an error."""
        return None if self.default_value is None else _filled(self.default_value, self.shape, self.dtype)


@dataclass(frozen=True, init=False, eq=False, repr=False)
class VarLenFeature(Feature):
    """Any number of values in each record, none included.

    >>> VarLenFeature(np.int64)
    VarLenFeature('int64')
    """

    dtype: np.dtype[Any]

    def __init__(self, dtype: Any) -> None:
        vars(self).update(dtype=_list_dtype(type(self).__name__, dtype))


@dataclass(frozen=True, init=False, eq=False, repr=False)
class FixedLenSequenceFeature(Feature):
    """Any number of steps of the same shape; with `allow_missing`, a missing feature is no steps at all.

    `default_value` is the scalar that pads the shorter rows of a batch.

    >>> FixedLenSequenceFeature([3], "float32", allow_missing=True)
    FixedLenSequenceFeature((3,), 'float32', allow_missing=True)
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    allow_missing: bool = False
    default_value: Any = None

    def __init__(
        self, shape: Any, dtype: Any, allow_missing: bool = False, default_value: Any = None
    ) -> None:
        name = type(self).__name__
        dims, kind = _known_shape(name, shape), _list_dtype(name, dtype)
        if 0 in dims:
            raise UsageError(
                f"{name}: steps of shape {dims} hold no values, so they cannot be counted. "
                "Give a shape without 0."
            )
        if default_value is not None:
            default = _default_array(name, default_value, kind)
            if default.size != 1:
                raise UsageError(
                    f"{name}: the default_value has shape {default.shape}; it pads short rows, so it must be "
                    "a scalar."
                )
            default_value = _plain(default.reshape(()))
        vars(self).update(
            shape=dims, dtype=kind, allow_missing=bool(allow_missing), default_value=default_value
        )


@dataclass(frozen=True, init=False, eq=False, repr=False)
class RaggedFeature(Feature):
    """Any number of values in each record, read from the key `value_key` if that is given.

    `row_splits_dtype` is kept for TensorFlow: the offsets of a Ragged are int64 whatever it says.

    >>> RaggedFeature("string", value_key="words")
    RaggedFeature('string', value_key='words')
    """

    dtype: np.dtype[Any]
    value_key: str | None = None
    partitions: tuple[()] = ()
    row_splits_dtype: np.dtype[Any] = _INT32

    def __init__(
        self, dtype: Any, value_key: str | None = None, partitions: Any = (), row_splits_dtype: Any = _INT32
    ) -> None:
        name = type(self).__name__
        if not (value_key is None or isinstance(value_key, str)):
            raise UsageError(f"{name}: value_key must be a str, not {value_key!r}.")
        if len(partitions) > 0:
            raise UsageError(
                f"{name}: partitions={partitions!r} is not supported, only partitions=(). Read the values "
                "and each partition as a VarLenFeature of its own, and put them together in a map()."
            )
        splits = as_dtype(row_splits_dtype)
        if splits is None or splits.name not in ("int32", "int64"):
            raise UsageError(
                f"{name}: row_splits_dtype must be int32 or int64, not {_text(row_splits_dtype)}."
            )
        vars(self).update(
            dtype=_list_dtype(name, dtype), value_key=value_key, partitions=(), row_splits_dtype=splits
        )


@dataclass(frozen=True, init=False, eq=False, repr=False)
class RawFeature(Feature):
    """One bytes value that is the little-endian memory of an array, of exactly this shape and dtype.

    A dimension of None may be of any size, another in each record; then a missing value is an empty array.
    The number of bytes tells the first dimension. If any other is None, the shape is read from the feature
    `<key>/shape`, where feedline's writers store it.

    >>> RawFeature([32, 32, 3], np.uint8)
    RawFeature((32, 32, 3), 'uint8')
    >>> RawFeature([None, None, 3], np.uint8)
    RawFeature((None, None, 3), 'uint8')
    """

    shape: tuple[int | None, ...]
    dtype: np.dtype[Any]

    def __init__(self, shape: Any, dtype: Any) -> None:
        name = type(self).__name__
        dims, kind = _shape(name, shape), _array_dtype(name, dtype)
        vars(self).update(shape=dims, dtype=kind)

    @property
    def is_ragged(self) -> bool:
        """Whether only the first dimension changes, so that the number of bytes tells the shape."""
        return len(self.shape) > 0 and self.shape[0] is None and all(self.shape[1:])

    @property
    def needs_shape(self) -> bool:
        """Whether the shape has to be read from the record."""
        return None in self.shape and not self.is_ragged


@dataclass(frozen=True, init=False, eq=False, repr=False)
class ListFeature(Feature):
    """One number, or a row of them, from an int64 or float list, given as the narrower `dtype` they once had.

    The shape is (), (n,), or (None,) for any number of values. A value that does not fit `dtype` is an error.

    >>> ListFeature([], np.uint8)
    ListFeature((), 'uint8')
    """

    shape: tuple[int | None, ...]
    dtype: np.dtype[Any]

    def __init__(self, shape: Any, dtype: Any) -> None:
        name = type(self).__name__
        dims, kind = _shape(name, shape), _array_dtype(name, dtype)
        if len(dims) > 1:
            raise UsageError(f"{name}: shape {dims} has more than one dimension. Use FixedLenFeature.")
        if list_dtype(kind) is None:
            raise UsageError(
                f"{name}: dtype {kind.name!r} may have values that neither int64 nor float32 holds. "
                "Use RawFeature."
            )
        vars(self).update(shape=dims, dtype=kind)

    @property
    def list_dtype(self) -> np.dtype[Any]:
        """As which the record holds the values: int64 or float32."""
        dtype = list_dtype(self.dtype)
        assert dtype is not None  # checked when it was made
        return dtype


@dataclass(frozen=True, init=False, eq=False, repr=False)
class TensorFeature(Feature):
    """One bytes value that is a serialized TensorProto, as tf.io.serialize_tensor writes it.

    A dimension of None may be of any size, another in each record.

    >>> TensorFeature([None, 64], "bfloat16")
    TensorFeature((None, 64), 'bfloat16')
    """

    shape: tuple[int | None, ...]
    dtype: np.dtype[Any]

    def __init__(self, shape: Any, dtype: Any) -> None:
        name = type(self).__name__
        kind = STRING if as_dtype(dtype) == STRING else _array_dtype(name, dtype)
        vars(self).update(shape=_shape(name, shape), dtype=kind)


@dataclass(frozen=True, init=False)
class SequenceFeatures:
    """The features of a tf.train.SequenceExample; it may stand wherever `features` is taken.

    `context` holds what a record has once; `sequence` what it has for each step: FixedLenSequenceFeature,
    VarLenFeature or RaggedFeature. Both may be tf.io's.

    >>> SequenceFeatures(context={}, sequence={"words": VarLenFeature("string")})
    SequenceFeatures(context={}, sequence={'words': VarLenFeature('string')})
    """

    context: dict[str, Feature]
    sequence: dict[str, Feature]

    def __init__(self, context: Mapping[str, Any], sequence: Mapping[str, Any]) -> None:
        vars(self).update(
            context=_normalize_all(context, "context"), sequence=_normalize_all(sequence, "sequence")
        )
        for key, feature in self.sequence.items():
            if not isinstance(feature, FixedLenSequenceFeature | VarLenFeature | RaggedFeature):
                raise UsageError(
                    f"sequence feature {key!r}: a {type(feature).__name__} does not say how the steps go. "
                    "Use FixedLenSequenceFeature, with the shape of one step, or VarLenFeature."
                )
        if not self.context and not self.sequence:
            raise UsageError("SequenceFeatures: context and sequence are empty; name at least one feature.")

    def __hash__(self) -> int:
        return hash((frozenset(self.context.items()), frozenset(self.sequence.items())))

    def __reduce__(self) -> tuple[Any, ...]:
        return SequenceFeatures, (self.context, self.sequence)


def normalize(features: Any) -> dict[str, Feature] | SequenceFeatures:
    """`features` as the user gave them, with tf.io's objects turned into ours.

    >>> normalize({"label": FixedLenFeature([], "int64")})
    {'label': FixedLenFeature((), 'int64')}
    """
    global _last
    if isinstance(features, SequenceFeatures):
        return features
    last = _last
    if type(features) is dict and last is not None and last.is_of(features):
        return last.ours
    ours = _normalize_all(features, "features")
    if not ours:
        raise UsageError("features is empty: name at least one feature, or leave it out to get raw bytes.")
    _last = _Normalized(list(features), list(features.values()), ours)
    return ours


class _Normalized(NamedTuple):
    """What was normalized last: a function of interleave's gives the same features for each of many files."""

    keys: list[str]
    given: list[Any]
    ours: dict[str, Feature]

    def is_of(self, features: dict[str, Any]) -> bool:
        # By identity: a default value may be an array, which cannot be compared in one word.
        return list(features) == self.keys and all(map(operator.is_, features.values(), self.given))


_last: _Normalized | None = None


def _normalize_all(features: Any, role: str) -> dict[str, Feature]:
    if not isinstance(features, Mapping):
        raise UsageError(
            f"{role} must be a dict of feature objects by key, not {type(features).__name__}; for example "
            '{"label": fl.FixedLenFeature([], "int64")}.'
        )
    return {_checked_key(key, role): _normalize_one(key, feature) for key, feature in features.items()}


def _checked_key(key: Any, role: str) -> str:
    if not isinstance(key, str):
        raise UsageError(f"{role}: the key {key!r} is a {type(key).__name__}; keys are str.")
    return key


def _normalize_one(key: str, feature: Any) -> Feature:
    if isinstance(feature, Feature):
        return feature
    kind = type(feature).__name__
    try:
        # tf.io's objects are namedtuples with exactly these fields.
        match kind if hasattr(feature, "_fields") else "":
            case "FixedLenFeature":
                return FixedLenFeature(feature.shape, feature.dtype, feature.default_value)
            case "VarLenFeature":
                return VarLenFeature(feature.dtype)
            case "FixedLenSequenceFeature":
                return FixedLenSequenceFeature(
                    feature.shape, feature.dtype, feature.allow_missing, feature.default_value
                )
            case "RaggedFeature":
                return RaggedFeature(
                    feature.dtype, feature.value_key, feature.partitions, feature.row_splits_dtype
                )
            case "SparseFeature":
                raise UsageError(
                    "SparseFeature is not supported. Read index_key and value_key as a VarLenFeature each."
                )
    except UsageError as error:
        raise UsageError(f"feature {key!r}: {error}") from None
    hint = f" Call it: {kind}(...)." if isinstance(feature, type) else ""
    raise UsageError(
        f"feature {key!r}: {feature!r} is no feature object.{hint} Use fl.FixedLenFeature, fl.VarLenFeature, "
        "fl.FixedLenSequenceFeature, fl.RaggedFeature, fl.RawFeature, fl.ListFeature, fl.TensorFeature, or "
        "tf.io's."
    )


def list_dtype(dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    """int64 or float32, whichever holds every value of a dtype; None if neither does.

    >>> list_dtype(np.dtype("uint8")), list_dtype(np.dtype("float64"))
    (dtype('int64'), None)
    """
    if dtype.name not in ARRAY_DTYPES:
        return None
    if dtype.kind in "biu":
        return None if dtype == np.uint64 else np.dtype(np.int64)
    return np.dtype(np.float32) if dtype.kind != "c" and dtype.itemsize <= 4 else None


def _text(value: Any) -> str:
    if isinstance(value, np.dtype):
        return repr("string" if value == STRING else value.name)
    return repr(value)


def _shape(name: str, shape: Any) -> tuple[int | None, ...]:
    try:
        sizes = [shape] if isinstance(shape, int | np.integer) else shape
        dims = tuple(None if size is None else operator.index(size) for size in sizes)
    except (TypeError, ValueError):  # a tf.TensorShape of unknown rank gives ValueError
        raise UsageError(
            f"{name}: shape must be a list of ints, such as [] or [28, 28], not {shape!r}."
        ) from None
    if any(size is not None and size < 0 for size in dims):
        raise UsageError(f"{name}: shape {dims} has a negative dimension.")
    return dims


def _known_shape(name: str, shape: Any) -> tuple[int, ...]:
    dims = _shape(name, shape)
    known = tuple(size for size in dims if size is not None)
    if len(known) < len(dims):
        raise UsageError(
            f"{name}: shape {dims} must be known. For values whose number changes from record to record use "
            "VarLenFeature, FixedLenSequenceFeature or TensorFeature."
        )
    return known


def _list_dtype(name: str, given: Any) -> np.dtype[Any]:
    dtype = as_dtype(given)
    if dtype is None or dtype.name not in ("int64", "float32", "object"):
        raise UsageError(
            f"{name}: dtype {_text(given)} cannot be in a tf.train.Example, which holds int64, float32 and "
            "string. Read it as one of these and convert in a map(); for bytes that are an array of another "
            "dtype use RawFeature or TensorFeature."
        )
    return dtype.newbyteorder("=")


def _array_dtype(name: str, given: Any) -> np.dtype[Any]:
    dtype = as_dtype(given)
    if dtype is None or dtype.name not in ARRAY_DTYPES:
        raise UsageError(f"{name}: dtype {_text(given)} is not one of {', '.join(ARRAY_DTYPES)}.")
    if dtype.byteorder == ">":
        raise UsageError(
            f"{name}: the bytes are read as little-endian, and dtype {dtype.str!r} is big-endian. Read them "
            f"as {dtype.name!r} and convert in a map() with .byteswap()."
        )
    return dtype


def _default_array(name: str, value: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """The default value as an array of `dtype`, in the shape in which it was given."""
    wrong = UsageError(f"{name}: the default_value {value!r} does not fit the dtype {_text(dtype)}.")
    try:
        # A bare [] is float64 to NumPy, so an empty default is of any kind.
        array = np.array(value, dtype=object) if dtype == STRING else np.asarray(value)
        if dtype == STRING:
            array = np.frompyfunc(_as_bytes, 1, 1)(array)
            return np.asarray(array, dtype=object)
        if array.size and array.dtype.kind not in ("biu" if dtype == np.int64 else "biuf"):
            raise wrong
        if array.dtype == np.uint64 and dtype == np.int64 and (array > np.iinfo(np.int64).max).any():
            raise wrong
        with np.errstate(over="raise"):
            return array.astype(dtype)
    except (TypeError, ValueError, FloatingPointError):  # wrong is a ValueError too
        raise wrong from None


def _as_bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if not isinstance(value, bytes):
        raise TypeError
    return value


def _plain(array: npt.NDArray[Any]) -> Any:
    """The array as a scalar or nested tuples of Python values, every NaN the same object."""

    def tuples(value: Any) -> Any:
        if isinstance(value, list):
            return tuple(tuples(item) for item in value)
        return math.nan if value != value else value

    return tuples(array.tolist())


def _filled(value: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    array = np.empty(shape, dtype)
    array[...] = np.array(value, dtype=dtype).reshape(shape) if isinstance(value, tuple) else value
    return array

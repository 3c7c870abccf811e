"""The dtype and shape of each leaf of an element, and how a user's value becomes a leaf.

A leaf is an array, a NumPy scalar, bytes, or a `Ragged`. `as_leaf` makes one of what users return: Python
numbers and lists of them become int32 and float32 as in TensorFlow, str becomes UTF-8 bytes, arrays of
strings become object arrays of bytes. Their dtype is called "string", and is NumPy's `object` in a spec.

A value that is none of these, a nested dataset say, stays the object it is: it can be handed on within a
process, but not be put into a frame.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from feedline.errors import UsageError
from feedline.structure import Structure as Structure
from feedline.structure import flatten as flatten

STRING = np.dtype(object)
"""The dtype of byte strings in a spec. No other objects have a dtype here, so it is unambiguous."""

ARRAYS = (np.ndarray, np.generic)  # for isinstance, which a tuple does not slow down as a union does

_PLAIN = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)
# From ml_dtypes, which is imported only when one of them is named.
_EXTENDED = (
    *("bfloat16", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"),
    *("float4_e2m1fn", "int2", "int4", "uint2", "uint4"),
)
_READY = frozenset(np.dtype(name).char for name in _PLAIN)
_NAMES: dict[np.dtype[Any], str] = {np.dtype(name): name for name in _PLAIN} | {STRING: "string"}


def dtype_name(dtype: np.dtype[Any]) -> str:
    """The name of a dtype that elements may have, as TensorFlow has it.

    >>> dtype_name(np.dtype("<f4")), dtype_name(STRING)
    ('float32', 'string')
    """
    name = _NAMES.get(dtype)
    if name is None and dtype.name in _EXTENDED and dtype == dtype_of(dtype.name):
        name = _NAMES[dtype] = dtype.name
    if name is None:
        raise UsageError(f"dtype {dtype!r}: {_remedy(dtype)}")
    return name


def _remedy(dtype: np.dtype[Any]) -> str:
    if dtype.kind in "mM":
        return "dates have no dtype in TensorFlow; pass x.astype('int64') and its unit apart."
    if dtype.names is not None:
        return "pass the fields of a structured array as a dict of arrays."
    return f"use one of {', '.join(_PLAIN)}, string or a small float of ml_dtypes."


def dtype_of(name: str) -> np.dtype[Any]:
    """The dtype of that name; UsageError when it is not one that elements may have."""
    if name in _PLAIN:
        return np.dtype(name)
    if name == "string":
        return STRING
    if name in _EXTENDED:
        import ml_dtypes

        small: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return small
    raise UsageError(f"dtype {name!r}: use one of {', '.join([*_PLAIN, 'string', *_EXTENDED])}.")


def as_dtype(given: Any) -> np.dtype[Any] | None:
    """NumPy's dtype for a NumPy, Python or TensorFlow type or its name; None when there is none.

    >>> as_dtype("int32"), as_dtype("string"), as_dtype("integer")
    (dtype('int32'), dtype('O'), None)
    """
    given = getattr(given, "as_numpy_dtype", given)  # tf.DType
    if isinstance(given, str) and given in ("string", "bytes"):
        return STRING
    if isinstance(given, str) and given in _EXTENDED:
        import ml_dtypes  # NumPy knows these names once it is imported

        given = getattr(ml_dtypes, given, None)
    try:
        dtype = None if given is None else np.dtype(given)  # np.dtype(None) would be float64
    except (TypeError, ValueError):
        return None
    return STRING if dtype is not None and dtype.kind in "OSUT" else dtype


def wider_dtype(one: Any, other: Any) -> np.dtype[Any] | None:
    """The dtype to which values of both can be converted, as NumPy has it; None when there is none.

    >>> wider_dtype(np.dtype("int32"), np.dtype("int64")), wider_dtype(np.dtype("int32"), np.dtype("float32"))
    (dtype('int64'), dtype('float64'))

    For int64 and uint64 NumPy says float64, which would change integers.

    >>> wider_dtype(np.dtype("int64"), np.dtype("uint64")), wider_dtype(np.dtype("int64"), STRING)
    (None, None)
    """
    if not (isinstance(one, np.dtype) and isinstance(other, np.dtype)) or STRING in (one, other):
        return None
    try:
        wider = np.promote_types(one, other)
    except TypeError:  # some of ml_dtypes have nothing in common
        return None
    both_integers = one.kind in "iu" and other.kind in "iu"
    return None if both_integers and wider.kind == "f" else wider


Shape: TypeAlias = tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """An array, a scalar (shape ()) or byte string(s) (dtype STRING).

    None for a dimension: it changes from element to element. None for the shape: even their number does.

    >>> ArraySpec((None, 3), np.dtype("float32"))
    ArraySpec((None, 3), float32)
    """

    shape: Shape | None
    dtype: np.dtype[Any]

    def __repr__(self) -> str:
        return f"ArraySpec({self.shape}, {dtype_name(self.dtype)})"


@dataclass(frozen=True, slots=True)
class RaggedSpec:
    """A `Ragged`: the first dimension counts rows, the `ragged_rank` next ones change from row to row."""

    shape: Shape
    dtype: np.dtype[Any]
    ragged_rank: int = 1

    def __repr__(self) -> str:
        return f"RaggedSpec({self.shape}, {dtype_name(self.dtype)}, ragged_rank={self.ragged_rank})"


@dataclass(frozen=True, slots=True)
class ObjectSpec:
    """Anything else: values of several dtypes, or Python objects that are no arrays."""


@dataclass(frozen=True, slots=True)
class DatasetSpec(ObjectSpec):
    """A dataset, and the spec of its elements: what `window` gives. With a shape, a batch of datasets."""

    element_spec: Any
    shape: Shape = ()


Spec: TypeAlias = ArraySpec | RaggedSpec | ObjectSpec


def any_sizes(spec: Any) -> Any:
    """The spec of elements like these, of any sizes; None of what is not known."""
    if spec is None:
        return None
    leaves, structure = flatten(spec)
    for number, leaf in enumerate(leaves):
        if not isinstance(leaf, ObjectSpec) and leaf.shape is not None:
            leaves[number] = replace(leaf, shape=(None,) * len(leaf.shape))
    return structure.unflatten(leaves)


def spec_of(tree: Any) -> Any:
    """The tree with the spec of each leaf in its place.

    >>> spec_of({"x": np.zeros((2, 3), "float32"), "y": b"cat"})
    {'x': ArraySpec((2, 3), float32), 'y': ArraySpec((), string)}
    """
    leaves, structure = flatten(tree)
    paths = structure.paths()
    return structure.unflatten([leaf_spec(as_leaf(v, p)) for v, p in zip(leaves, paths, strict=True)])


def leaf_spec(leaf: Any) -> Spec:
    """The spec of a value that `as_leaf` gave."""
    if isinstance(leaf, ARRAYS):
        return ArraySpec(leaf.shape, leaf.dtype)
    if isinstance(leaf, bytes):
        return ArraySpec((), STRING)
    own = getattr(leaf, "spec", None)  # a Ragged knows its own; its module is above this one
    return own if isinstance(own, RaggedSpec) else ObjectSpec()


def merge_specs(one: Spec, other: Spec) -> Spec:
    """The narrowest spec that both fit.

    >>> merge_specs(ArraySpec((2, 3), np.dtype("int8")), ArraySpec((5, 3), np.dtype("int8")))
    ArraySpec((None, 3), int8)
    """
    if one == other:
        return one
    if isinstance(one, ArraySpec) and isinstance(other, ArraySpec) and one.dtype == other.dtype:
        if one.shape is None or other.shape is None or len(one.shape) != len(other.shape):
            return ArraySpec(None, one.dtype)
        return ArraySpec(_merge_shapes(one.shape, other.shape), one.dtype)
    if (
        isinstance(one, RaggedSpec)
        and isinstance(other, RaggedSpec)
        and (one.dtype, one.ragged_rank, len(one.shape)) == (other.dtype, other.ragged_rank, len(other.shape))
    ):
        return RaggedSpec(_merge_shapes(one.shape, other.shape), one.dtype, one.ragged_rank)
    return ObjectSpec()


def _merge_shapes(one: Shape, other: Shape) -> Shape:
    return tuple(a if a == b else None for a, b in zip(one, other, strict=True))


def is_ready(dtype: np.dtype[Any]) -> bool:
    """May elements hold arrays of numbers as they are?"""
    return dtype.char in _READY and dtype.isnative


def as_leaf(value: Any, path: str = "element") -> Any:
    """The value as elements hold it: an array, a NumPy scalar, bytes, or the object itself.

    >>> as_leaf([1, 2]), as_leaf("cat"), as_leaf(0.5)
    (array([1, 2], dtype=int32), b'cat', np.float32(0.5))
    """
    if isinstance(value, ARRAYS):
        return value if is_ready(value.dtype) else _mended(value, path)
    if type(value) is bytes:
        return value
    if isinstance(value, (bytes, str)):
        return _string(value, path)
    if isinstance(value, bool | int | float | complex | list | range):
        return _mended(_array(value, path), path)
    if isinstance(value, bytearray | memoryview) or hasattr(type(value), "__array__"):
        return _mended(np.asarray(value), path)
    return value


def _array(value: Any, path: str) -> np.ndarray[Any, Any]:
    try:
        array = np.asarray(value)
    except ValueError as error:
        if "inhomogeneous" not in str(error):
            raise UsageError(f"{path}: this list is no array: {error}.") from error
        raise UsageError(
            f"{path}: the rows of this list have different lengths.\n"
            "  Give it as feedline.Ragged(values, offsets), or pad it."
        ) from None
    if array.dtype.kind in "SU":
        return np.array(value, STRING)  # NumPy's own strings lose the zeros at their end
    narrow = {np.dtype(np.int64): np.int32, np.dtype(np.float64): np.float32}.get(array.dtype)
    if narrow is None or not _is_python(value):
        return array
    if narrow is np.float32 and array.size and not _holds_float(value):
        raise UsageError(
            f"{path}: no dtype of integers holds all of this list. Make it floats, if that will do."
        )
    with np.errstate(over="ignore"):
        narrowed = array.astype(narrow)
    # What does not fit stays wide: TensorFlow refuses it, and a silent inf would be worse than either.
    fits = np.isfinite(narrowed) == np.isfinite(array) if narrow is np.float32 else narrowed == array
    return narrowed if fits.all() else array


def _is_python(value: Any) -> bool:
    """Are its numbers Python's own, whose width nobody chose? np.float64 is a float, too, but was chosen."""
    if isinstance(value, list | tuple):  # a tuple inside of a list is no structure
        return all(map(_is_python, value))
    if type(value) in (bool, int, float, range):  # nearly always, and isinstance takes four times as long
        return True
    return isinstance(value, bool | int | float) and not isinstance(value, np.generic)


def _holds_float(value: Any) -> bool:
    return any(map(_holds_float, value)) if isinstance(value, list | tuple) else isinstance(value, float)


def _mended(array: np.ndarray[Any, Any] | np.generic, path: str) -> Any:
    dtype = array.dtype
    if dtype.kind in "SUT" or dtype == STRING:
        strings = _strings(np.asarray(array), path)
        return strings if strings.ndim else strings[()]
    if not dtype.isnative:
        dtype = dtype.newbyteorder("=")
        array = array.astype(dtype)
    try:
        dtype_name(dtype)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None
    return array if array.shape else np.asarray(array)[()]


def _strings(array: np.ndarray[Any, Any], path: str) -> np.ndarray[Any, Any]:
    strings = np.empty(array.shape, STRING)
    strings.reshape(-1)[:] = [_string(item, path) for item in array.ravel().tolist()]
    return strings


def _string(item: Any, path: str) -> bytes:
    if isinstance(item, bytes):
        return bytes(item)
    if isinstance(item, str):
        return _utf8(item, path)
    raise UsageError(
        f"{path}: an array of objects may hold bytes or str only, not {type(item).__name__}.\n"
        "  Give numbers as an array of numbers, and arrays of different lengths as feedline.Ragged."
    )


def _utf8(text: str, path: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{path}: this str has no UTF-8 form: {error}. Give bytes instead.") from None

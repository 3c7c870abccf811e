"""Columns: many values of one leaf, in as few arrays as they fit.

    np.ndarray   rows of one shape: one array with a leading axis
    Ragged       rows whose first dimension changes: values end to end, and where each row begins
    Bytes        byte strings, or arrays of one shape of them, laid end to end
    Objects      a list; the last resort

A slice of a column is free: it shares the memory of the whole. So the offsets inside a `Ragged` or a `Bytes`
need not start at 0, nor end where the values end. What users see (`Ragged.values`, `Ragged.offsets`) always
does. `take` and `concat` are native, let other threads run, and give 64-byte aligned memory of the pool.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import prod
from typing import Any, TypeAlias

import numpy as np

from feedline import _native
from feedline.errors import UsageError
from feedline.spec import (
    ARRAYS,
    STRING,
    ArraySpec,
    ObjectSpec,
    RaggedSpec,
    Spec,
    as_leaf,
    leaf_spec,
    merge_specs,
)

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Offsets: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]


class Bytes:
    """Byte strings end to end in `data`; string i is data[offsets[i]:offsets[i + 1]].

    With a `shape`, each row is an array of that shape of strings, and has as many offsets. Whoever makes one
    vouches for the offsets; only `rows` of a shape that holds nothing cannot be told from them.
    """

    __slots__ = ("data", "offsets", "rows", "shape")

    def __init__(
        self, data: Array, offsets: Offsets, shape: tuple[int, ...] = (), rows: int | None = None
    ) -> None:
        self.data = data
        self.offsets = offsets
        self.shape = shape
        self.rows = (len(offsets) - 1) // prod(shape) if rows is None else rows

    @classmethod
    def of(cls, strings: Sequence[bytes], shape: tuple[int, ...] = (), rows: int | None = None) -> Bytes:
        offsets = np.zeros(len(strings) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, strings), np.int64, len(strings)), out=offsets[1:])
        return cls(np.frombuffer(b"".join(strings), np.uint8), offsets, shape, rows)

    def __len__(self) -> int:
        return self.rows

    def strings(self) -> list[bytes]:
        return _native.byte_strings(self.data, self.offsets)

    def normal(self) -> Bytes:
        """The same with no bytes before the first string or after the last."""
        begin, end = int(self.offsets[0]), int(self.offsets[-1])
        return Bytes(self.data[begin:end], _from_zero(self.offsets), self.shape, self.rows)

    def __repr__(self) -> str:
        size = int(self.offsets[-1] - self.offsets[0])
        return f"<Bytes, {self.rows} rows of shape {self.shape}, {size} bytes>"

    def __reduce__(self) -> tuple[Any, ...]:
        whole = self.normal()
        return Bytes, (whole.data, whole.offsets, whole.shape, whole.rows)


class Objects:
    """Values that share no dtype or no number of dimensions, or that are no arrays.

    As a leaf, it is a batch of datasets.
    """

    __slots__ = ("items",)

    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)

    def __getitem__(self, row: int) -> Any:
        return self.items[row]

    def __repr__(self) -> str:
        return f"<Objects, {len(self.items)} rows>"


class Ragged:
    """Rows of changing length: row i is `values[offsets[i]:offsets[i + 1]]`.

    Values may have further dimensions, may be byte strings, or may be `Ragged` themselves.

    >>> tags = Ragged(np.array([1, 2, 3, 4]), [0, 3, 3, 4])
    >>> tags
    <Ragged int64, 3 rows: [[1, 2, 3], [], [4]]>
    >>> tags[0], tags.lengths
    (array([1, 2, 3]), array([3, 0, 1]))
    >>> tags.to_dense(-1)
    array([[ 1,  2,  3],
           [-1, -1, -1],
           [ 4, -1, -1]])
    """

    __slots__ = ("_offsets", "_values")

    _values: Column
    _offsets: Offsets

    def __init__(self, values: Any, offsets: Any) -> None:
        self._values = _as_values(values)
        self._offsets = _as_offsets(offsets, length(self._values))

    @classmethod
    def _trusted(cls, values: Column, offsets: Offsets) -> Ragged:
        """Without checks: for offsets that the native core made, and for slices of sound columns."""
        ragged = cls.__new__(cls)
        ragged._values, ragged._offsets = values, offsets
        return ragged

    def _normal(self) -> Ragged:
        """The same with no values before the first row or after the last."""
        begin, end = int(self._offsets[0]), int(self._offsets[-1])
        if begin == 0 and end == length(self._values):
            return self
        return Ragged._trusted(slice_of(self._values, begin, end), _from_zero(self._offsets))

    @property
    def values(self) -> Array | Ragged:
        """The values of all rows, end to end; strings as an object array of bytes."""
        values: Array | Ragged = as_batch(self._normal()._values)
        return values

    @property
    def offsets(self) -> Offsets:
        """One more than there are rows; from 0 to the number of values."""
        return _from_zero(self._offsets)

    @property
    def lengths(self) -> Offsets:
        return np.diff(self._offsets)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.spec.dtype

    @property
    def spec(self) -> RaggedSpec:
        inner = row_spec(self._values)
        assert not isinstance(inner, ObjectSpec)  # _as_values takes no Objects
        assert inner.shape is not None
        rank = 1
        values = self._values
        while isinstance(values, Ragged):
            rank, values = rank + 1, values._values
        return RaggedSpec((len(self), None, *inner.shape), inner.dtype, rank)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, row: int | slice) -> Any:
        if isinstance(row, slice):
            begin, end, step = row.indices(len(self))
            return slice_of(self, begin, end) if step == 1 else take(self, np.arange(begin, end, step))
        at = row + len(self) if row < 0 else row
        if not 0 <= at < len(self):
            raise IndexError(f"row {row} of a Ragged with {len(self)} rows")
        return row_of(self, at)

    def __iter__(self) -> Iterator[Any]:
        return iter_rows(self)

    def to_list(self) -> list[Any]:
        return [row.to_list() if isinstance(row, Ragged) else row.tolist() for row in self]

    def to_dense(self, default: Any = None) -> Array:
        """Each row filled up to the longest with `default`, which is 0 or b"" when not given."""
        if isinstance(self._values, Ragged):
            values = Ragged._trusted(self._values, self._offsets)._normal().values
            assert isinstance(values, Ragged)
            return _pad(values.to_dense(default), self.offsets, default)
        values = self.values
        assert isinstance(values, np.ndarray)
        return _pad(values, self.offsets, default)

    def equals(self, other: object) -> bool:
        """Have both the same rows, bit for bit? (So NaN equals itself.)"""
        return isinstance(other, Ragged) and same(self, other)

    def __repr__(self) -> str:
        shown = ", ".join(map(_short, self[:6]))
        more = ", ..." if len(self) > 6 else ""
        name = "string" if self.dtype == STRING else str(self.dtype)
        return f"<Ragged {name}, {len(self)} rows: [{shown}{more}]>"

    def __reduce__(self) -> tuple[Any, ...]:
        whole = self._normal()
        return Ragged._trusted, (whole._values, whole._offsets)


Column: TypeAlias = Array | Ragged | Bytes | Objects


# The rest says what can be done with any column.


def length(column: Column) -> int:
    return len(column)


def slice_of(column: Column, begin: int, end: int) -> Column:
    """Rows begin to end, which must be within the column. Shares its memory."""
    end = max(begin, end)
    if isinstance(column, np.ndarray):
        return column[begin:end]
    if isinstance(column, Ragged):
        return Ragged._trusted(column._values, column._offsets[begin : end + 1])
    if isinstance(column, Bytes):
        width = prod(column.shape)
        offsets = column.offsets[begin * width : end * width + 1]
        return Bytes(column.data, offsets, column.shape, end - begin)
    return Objects(column.items[begin:end])


def row_of(column: Column, row: int) -> Any:
    """One row as tf.data's as_numpy_iterator gives it. The row must be within the column."""
    if isinstance(column, np.ndarray):
        return column[row]
    if isinstance(column, Ragged):
        return as_batch(slice_of(column._values, int(column._offsets[row]), int(column._offsets[row + 1])))
    if isinstance(column, Bytes):
        if column.shape == ():
            return column.data[column.offsets[row] : column.offsets[row + 1]].tobytes()
        return as_batch(slice_of(column, row, row + 1))[0]
    return column.items[row]


def iter_rows(column: Column) -> Iterator[Any]:
    """All rows as `row_of` gives them, quicker."""
    if isinstance(column, np.ndarray):
        return iter(column)
    if isinstance(column, Bytes):
        return iter(column.strings() if column.shape == () else as_batch(column))
    if isinstance(column, Objects):
        return iter(column.items)
    # Bytes of strings are made objects once for all rows, not row by row.
    values = as_batch(column._values) if isinstance(column._values, Bytes) else column._values
    bounds = column._offsets.tolist()
    slices = (slice_of(values, a, b) for a, b in pairwise(bounds))
    return map(as_batch, slices)


def as_batch(column: Column) -> Any:
    """The column as a user sees it: an array (of bytes objects for strings) or a Ragged."""
    if isinstance(column, Bytes):
        return _objects(column.strings()).reshape(column.rows, *column.shape)
    if isinstance(column, Objects):
        return _objects(column.items)
    return column


def is_writable(column: Column) -> bool:
    """May who gets a row change it? Of strings they get copies."""
    if isinstance(column, np.ndarray):
        return column.flags.writeable
    return not isinstance(column, Ragged) or is_writable(column._values)


def frozen(column: Column) -> Column:
    """The same rows, which cannot be changed in place."""
    if isinstance(column, np.ndarray):
        column = column.view()
        column.flags.writeable = False
        return column
    if isinstance(column, Ragged):
        return Ragged._trusted(frozen(column._values), column._offsets)
    if isinstance(column, Objects):
        items = column.items
        return Objects([frozen(item) if isinstance(item, np.ndarray | Ragged) else item for item in items])
    return column  # of Bytes, users get copies


def nbytes(column: Column) -> int:
    """The bytes of its rows; of Objects, as far as they are known."""
    if isinstance(column, np.ndarray):
        return column.nbytes
    if isinstance(column, Ragged):
        whole = column._normal()
        return nbytes(whole._values) + whole._offsets.nbytes
    if isinstance(column, Bytes):
        return int(column.offsets[-1] - column.offsets[0]) + column.offsets.nbytes
    return sum(len(item) if isinstance(item, bytes) else getattr(item, "nbytes", 0) for item in column.items)


def row_spec(column: Column) -> Spec:
    """The narrowest spec that each row fits."""
    if isinstance(column, np.ndarray):
        return ArraySpec(column.shape[1:], column.dtype)
    if isinstance(column, Bytes):
        return ArraySpec(column.shape, STRING)
    if isinstance(column, Ragged):
        inner = column.spec
        if inner.ragged_rank == 1:
            return ArraySpec(inner.shape[1:], inner.dtype)
        return RaggedSpec(inner.shape[1:], inner.dtype, inner.ragged_rank - 1)
    specs = [leaf_spec(item) for item in column.items] or [ObjectSpec()]
    merged = specs[0]
    for spec in specs[1:]:
        merged = merge_specs(merged, spec)
    return merged


def aligned(column: Column) -> Column:
    """The column with its numbers, if they are not yet, in contiguous and 64-byte aligned memory.

    Frameworks take such arrays without a copy, and others by a slow one.
    """
    if isinstance(column, np.ndarray):
        if _native.is_aligned(column):
            return column
    elif isinstance(column, Ragged):
        whole = column._normal()
        return Ragged._trusted(aligned(whole._values), whole._offsets)
    else:
        return column
    copy = empty(column.shape, column.dtype)
    copy[...] = column
    return copy


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An uninitialised array in memory of the pool."""
    return _native.empty(prod(shape) * dtype.itemsize).view(dtype).reshape(shape)


def take(column: Column, indices: Offsets) -> Column:
    """The rows at `indices`, in their order. IndexError when one is negative or too large."""
    if isinstance(column, np.ndarray):
        taken = _native.gather_rows(_table(column), indices)
        return taken.view(column.dtype).reshape(len(indices), *column.shape[1:])
    if isinstance(column, Ragged):
        values, offsets = _take_ranges(column._values, column._offsets, indices)
        return Ragged._trusted(values, offsets)
    if isinstance(column, Bytes):
        if column.shape == ():
            data, offsets = _native.gather_ranges(column.data, 1, column.offsets, indices)
            return Bytes(data, offsets)
        width = prod(column.shape)
        rows = np.arange(column.rows + 1, dtype=np.int64) * width
        positions, _ = _native.gather_positions(column.rows * width, rows, indices)
        data, offsets = _native.gather_ranges(column.data, 1, column.offsets, positions)
        return Bytes(data, offsets, column.shape, len(indices))
    check_indices(indices, len(column.items))
    return Objects([column.items[i] for i in indices.tolist()])


def check_indices(indices: Offsets, rows: int) -> None:
    """IndexError when one is negative or too large."""
    _native.gather_rows(np.empty((rows, 0), np.uint8), indices)


def same(one: Column, other: Column) -> bool:
    """Have both the same rows, bit for bit, in the same kind of column?"""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if isinstance(one, Ragged) and isinstance(other, Ragged):
        one, other = one._normal(), other._normal()
        return np.array_equal(one._offsets, other._offsets) and same(one._values, other._values)
    if isinstance(one, Bytes) and isinstance(other, Bytes):
        one, other = one.normal(), other.normal()
        alike = (one.rows, one.shape) == (other.rows, other.shape) and same(one.offsets, other.offsets)
        return alike and same(one.data, other.data)
    if isinstance(one, Objects) and isinstance(other, Objects):
        return len(one) == len(other) and all(map(_same_item, one.items, other.items))
    return False


def _same_item(one: Any, other: Any) -> bool:
    if isinstance(one, ARRAYS) and isinstance(other, ARRAYS) and STRING not in (one.dtype, other.dtype):
        return same(np.asarray(one)[None], np.asarray(other)[None])
    if isinstance(one, Ragged) and isinstance(other, Ragged):
        return same(one, other)
    return one is other or bool(type(one) is type(other) and np.array_equal(one, other))


def _take_ranges(values: Column, offsets: Offsets, indices: Offsets) -> tuple[Column, Offsets]:
    if isinstance(values, np.ndarray):
        unit = values.dtype.itemsize * prod(values.shape[1:])
        if unit:
            data, taken = _native.gather_ranges(flat_bytes(values), unit, offsets, indices)
            return data.view(values.dtype).reshape(int(taken[-1]), *values.shape[1:]), taken
    positions, taken = _native.gather_positions(length(values), offsets, indices)
    return take(values, positions), taken


def flat_bytes(array: Array) -> Array:
    """All its bytes, copied only when they do not lie in order."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _table(array: Array) -> Array:
    """Its bytes, row by row. Rows may lie apart, or backwards; only the bytes of a row must be adjacent."""
    if array.size == 0:
        return np.empty((len(array), array.dtype.itemsize * prod(array.shape[1:])), np.uint8)
    if not array.flags.c_contiguous and (array.ndim == 1 or not array[0].flags.c_contiguous):
        array = np.ascontiguousarray(array)
    if array.ndim == 1:
        array = array[:, None]
    return array.view(np.uint8).reshape(len(array), -1)


def _from_zero(offsets: Offsets) -> Offsets:
    return offsets if offsets[0] == 0 else offsets - offsets[0]


def _objects(items: Sequence[Any]) -> Array:
    array = np.empty(len(items), object)
    # One by one: array[:] = items would take arrays among the items for further dimensions.
    for i, item in enumerate(items):
        array[i] = item
    return array


def _pad(values: Array, offsets: Offsets, default: Any) -> Array:
    lengths = np.diff(offsets)
    shape = (len(lengths), int(lengths.max(initial=0)), *values.shape[1:])
    strings = values.dtype == STRING
    padded = np.empty(shape, STRING) if strings else empty(shape, values.dtype)
    padded[...] = (b"" if strings else 0) if default is None else default
    padded[np.arange(shape[1]) < lengths[:, None]] = values
    return padded


def _short(row: Any) -> str:
    if isinstance(row, Ragged):
        return "[" + ", ".join(map(_short, row[:3])) + (", ...]" if len(row) > 3 else "]")
    text = ", ".join(str(value) for value in row[:6].tolist())
    return f"[{text}, ...]" if len(row) > 6 else f"[{text}]"


def from_batch(leaf: Any, name: str) -> Column:
    """The column whose rows are those of an array, a Ragged or Objects. Shares its memory.

    Of an array, `as_leaf` must have given it.
    """
    if isinstance(leaf, Ragged | Objects):
        return leaf
    if not isinstance(leaf, np.ndarray) or leaf.ndim == 0:
        raise UsageError(
            f"{name} must be an array with one dimension at least, or a Ragged, not {_kind(leaf)}.\n"
            "  Its first dimension counts the rows."
        )
    if leaf.dtype == STRING:
        return Bytes.of(leaf.ravel().tolist(), leaf.shape[1:], len(leaf))
    return leaf


def _kind(leaf: Any) -> str:
    return f"a scalar {leaf.dtype}" if isinstance(leaf, ARRAYS) else type(leaf).__name__


def _as_values(values: Any) -> Column:
    if isinstance(values, Bytes):
        return values
    return from_batch(as_leaf(values, "Ragged(values)"), "Ragged(values): values")


def _as_offsets(offsets: Any, values: int) -> Offsets:
    given = np.asarray(offsets)
    if given.ndim != 1 or len(given) == 0 or given.dtype.kind not in "iu":
        raise UsageError(
            f"Ragged(offsets): offsets must be integers in one dimension, one more than there are rows, "
            f"not {given.dtype} of shape {given.shape}."
        )
    checked = np.ascontiguousarray(given, np.int64)
    fall = _native.first_fall(checked)
    if checked[0] != 0:
        raise UsageError(f"Ragged(offsets): offsets must start at 0, not {checked[0]}.")
    if fall >= 0:
        raise UsageError(
            f"Ragged(offsets): offsets must never fall, but offset {fall} is {checked[fall]} "
            f"after {checked[fall - 1]}."
        )
    if checked[-1] != values:
        raise UsageError(
            f"Ragged(offsets): the last offset must be the number of values, {values}, not {checked[-1]}."
        )
    return checked

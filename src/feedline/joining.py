"""Columns made of leaves, which are stacked, or of other columns, which are laid end to end."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from feedline import _native
from feedline.column import Array, Bytes, Column, Objects, Offsets, Ragged, empty, iter_rows, length
from feedline.spec import ARRAYS, STRING

_DTYPE_OF, _SHAPE_OF = attrgetter("dtype"), attrgetter("shape")

_LARGE = 4 << 20  # bytes, of which little would still be in a cache when it is read


def concat(columns: Sequence[Column]) -> Column:
    """The rows of all columns, in the tightest column that they fit. Needs one column at least."""
    filled = [column for column in columns if length(column)] or columns[:1]
    if len(filled) == 1:
        return filled[0]
    joined = _join(filled)
    if joined is None:
        ragged = [one for one in map(_as_ragged, filled) if one is not None]
        joined = _join(ragged) if len(ragged) == len(filled) else None
    return Objects([row for column in filled for row in iter_rows(column)]) if joined is None else joined


def stack(leaves: Sequence[Any]) -> Column:
    """The tightest column whose rows are `leaves`, each of which `as_leaf` gave."""
    if not leaves:
        return Objects([])
    first = leaves[0]
    if isinstance(first, bytes):
        return Bytes.of(leaves) if all(isinstance(leaf, bytes) for leaf in leaves) else Objects(list(leaves))
    if isinstance(first, Ragged):
        column = _stack_ragged(leaves)
    elif isinstance(first, ARRAYS):
        column = _stack_arrays(leaves, first.shape, first.dtype)
    else:
        column = None
    return Objects(list(leaves)) if column is None else column


def alone(leaf: Any) -> Column:
    """The column whose only row is the leaf: a view of it, if it is an array."""
    return leaf[None] if isinstance(leaf, np.ndarray) and leaf.dtype != STRING else stack([leaf])


class Rows:
    """Arrays of one dtype and shape that are to become the rows of a dense column."""

    def __init__(self, leaves: Sequence[Array]) -> None:
        self._leaves = leaves
        self.shape = (len(leaves), *leaves[0].shape)
        self.dtype = leaves[0].dtype
        self.nbytes = len(leaves) * leaves[0].nbytes

    @classmethod
    def of(cls, leaves: Sequence[Any]) -> Rows | None:
        """None when they are no such arrays: then `stack` makes a column of them."""
        first = leaves[0]
        if not isinstance(first, np.ndarray) or not first.shape or first.dtype == STRING:
            return None
        if set(map(type, leaves)) != {np.ndarray} or set(map(_SHAPE_OF, leaves)) != {first.shape}:
            return None
        return cls(leaves) if set(map(_DTYPE_OF, leaves)) == {first.dtype} else None

    def stack_into(self, out: Array) -> None:
        if out.size:
            _copy_end_to_end(self._leaves, out.reshape(-1, *self.shape[2:]))


class Joined:
    """Dense columns of one dtype and inner shape that are to become one, end to end."""

    def __init__(self, columns: Sequence[Array]) -> None:
        self.columns = columns
        first = columns[0]
        self.shape = (sum(map(len, columns)), *first.shape[1:])
        self.dtype = first.dtype
        self.nbytes = sum(column.nbytes for column in columns)

    @classmethod
    def of(cls, columns: Sequence[Column]) -> Joined | Column:
        """A column where it takes more than laying them end to end: then that is done now."""
        dense = [column for column in columns if isinstance(column, np.ndarray)]
        kinds = {(column.dtype, column.shape[1:]) for column in dense}
        return cls(dense) if len(dense) == len(columns) and len(kinds) == 1 else concat(columns)


def copy(array: Array, out: Array) -> None:
    """The same as `out[...] = array`, of one shape; quicker for large ones."""
    contiguous = array.flags.c_contiguous and out.flags.c_contiguous
    if array.nbytes >= _LARGE and array.dtype == out.dtype and contiguous:
        _native.copy_past_caches(out.reshape(-1).view(np.uint8), array.reshape(-1).view(np.uint8))
    else:
        out[...] = array


def _join(columns: Sequence[Column]) -> Column | None:
    """The columns end to end, when they are of one kind, dtype and inner shape."""
    first = columns[0]
    if isinstance(first, np.ndarray):
        inner, dtype = first.shape[1:], first.dtype
        arrays = [
            c for c in columns if isinstance(c, np.ndarray) and c.shape[1:] == inner and c.dtype == dtype
        ]
        if len(arrays) != len(columns):
            return None
        return _end_to_end(arrays)
    if isinstance(first, Bytes):
        strings = [c.normal() for c in columns if isinstance(c, Bytes) and c.shape == first.shape]
        if len(strings) != len(columns):
            return None
        data = _end_to_end([one.data for one in strings])
        offsets = _native.join_offsets([one.offsets for one in strings])
        return Bytes(data, offsets, first.shape, sum(map(len, strings)))
    if isinstance(first, Ragged):
        ragged = [c._normal() for c in columns if isinstance(c, Ragged)]
        values = _join([one._values for one in ragged]) if len(ragged) == len(columns) else None
        if values is None:
            return None
        return Ragged._trusted(values, _native.join_offsets([one._offsets for one in ragged]))
    return None


def _as_ragged(column: Column) -> Ragged | None:
    """Rows of one length, seen as rows whose length could change."""
    if isinstance(column, Ragged):
        return column
    if isinstance(column, np.ndarray) and column.ndim > 1:
        size, inner = column.shape[1], column.shape[2:]
        values: Column = column.reshape(len(column) * size, *inner)
    elif isinstance(column, Bytes) and column.shape:
        size, inner = column.shape[0], column.shape[1:]
        values = Bytes(column.data, column.offsets, inner, column.rows * size)
    else:
        return None
    return Ragged._trusted(values, np.arange(length(column) + 1, dtype=np.int64) * size)


def _stack_arrays(leaves: Sequence[Any], shape: tuple[int, ...], dtype: np.dtype[Any]) -> Column | None:
    # Sets, because what they are made of runs without Python's own steps for each leaf.
    if not all(issubclass(kind, ARRAYS) for kind in set(map(type, leaves))):
        return None
    if set(map(_DTYPE_OF, leaves)) != {dtype}:
        return None
    if set(map(_SHAPE_OF, leaves)) == {shape}:
        if dtype == STRING:
            return Bytes.of([s for leaf in leaves for s in leaf.ravel().tolist()], shape, len(leaves))
        return _stack_equal(leaves, shape, dtype)
    if not shape or not all(len(leaf.shape) == len(shape) and leaf.shape[1:] == shape[1:] for leaf in leaves):
        return None
    lengths = [len(leaf) for leaf in leaves]
    if dtype == STRING:
        values: Column = Bytes.of(
            [s for leaf in leaves for s in leaf.ravel().tolist()], shape[1:], sum(lengths)
        )
    else:
        values = _end_to_end(leaves)
    return Ragged._trusted(values, _ends(lengths))


def _stack_equal(leaves: Sequence[Any], shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    if shape:
        # Along the first axis of the rows, which spares np.stack's new axis for each of them.
        return _end_to_end(leaves).reshape(len(leaves), *shape)
    stacked = empty((len(leaves),), dtype)
    stacked[:] = leaves
    return stacked


def _stack_ragged(leaves: Sequence[Any]) -> Column | None:
    if not all(isinstance(leaf, Ragged) for leaf in leaves):
        return None
    values = _join(leaves)
    return None if values is None else Ragged._trusted(values, _ends([len(leaf) for leaf in leaves]))


def _end_to_end(arrays: Sequence[Array]) -> Array:
    """np.concatenate into memory of the pool."""
    first = arrays[0]
    joined = empty((sum(map(len, arrays)), *first.shape[1:]), first.dtype)
    _copy_end_to_end(arrays, joined)
    return joined


def _copy_end_to_end(arrays: Sequence[Array], out: Array) -> None:
    """np.concatenate, which lets other threads run, and takes arrays of any layout."""
    if out.nbytes >= _LARGE * len(arrays):
        at = 0
        for array in arrays:
            copy(array, out[at : at + len(array)])
            at += len(array)
    elif out.dtype.isbuiltin != 2:
        np.concatenate(arrays, out=out)
    else:
        # Of the dtypes of ml_dtypes, NumPy copies one item at a time; of integers, all at once.
        bits = np.dtype(f"u{out.dtype.itemsize}")
        np.concatenate([array.view(bits) for array in arrays], out=out.view(bits))


def _ends(lengths: Sequence[int]) -> Offsets:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets

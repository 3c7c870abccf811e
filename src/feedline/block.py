"""A Block: a run of consecutive elements, stored as one column per leaf.

Blocks are what moves through a pipeline. They are never changed: `slice` shares memory with the whole, `take`
and `concat` copy, in native code, into memory of the pool. A row comes out as tf.data's as_numpy_iterator
gives it: a NumPy scalar, bytes for a string, else an array.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from feedline import column as columns_
from feedline.column import Bytes, Column, Objects, Ragged
from feedline.errors import UsageError
from feedline.spec import as_leaf, dtype_name
from feedline.structure import Structure, flatten

__all__ = ["Block", "Bytes", "Column", "Objects", "Ragged"]


class Block:
    """Elements as columns.

    >>> block = Block.from_elements([{"x": np.float32(1), "name": "a"}, {"x": np.float32(2), "name": "bc"}])
    >>> block
    <Block, 2 rows: {'x': ArraySpec((), float32), 'name': ArraySpec((), string)}>
    >>> block.row(1)
    {'x': np.float32(2.0), 'name': b'bc'}
    >>> block.take([1, 0]).as_batch()
    {'x': array([2., 1.], dtype=float32), 'name': array([b'bc', b'a'], dtype=object)}
    """

    __slots__ = ("columns", "rows", "structure")

    structure: Structure
    columns: tuple[Column, ...]
    rows: int

    def __init__(self, structure: Structure, columns: Sequence[Column], rows: int) -> None:
        if len(columns) != structure.leaf_count:
            raise UsageError(f"{structure} has {structure.leaf_count} leaves, not {len(columns)} columns.")
        for number, column in enumerate(columns):
            try:
                _check(column, rows)
            except UsageError as error:
                raise UsageError(f"{structure.paths()[number]}: {error}") from None
        self.structure = structure
        self.columns = tuple(columns)
        self.rows = rows

    @classmethod
    def _trusted(cls, structure: Structure, columns: Sequence[Column], rows: int) -> Block:
        block = cls.__new__(cls)
        block.structure, block.columns, block.rows = structure, tuple(columns), rows
        return block

    @classmethod
    def from_rows(cls, structure: Structure, rows: Sequence[Sequence[Any]]) -> Block:
        """Stack elements that are flattened already: each row is the leaves of one.

        Each column is the tightest that its values fit: dense when all have one dtype and shape, ragged when
        only the first dimension changes, and Objects else. So a column may be of another kind in each block.
        """
        paths = structure.paths()
        for row in rows:
            if len(row) != len(paths):
                raise UsageError(f"{structure} has {len(paths)} leaves, not {len(row)}.")
        leaves = zip(*rows, strict=True) if rows else ((),) * len(paths)
        made = [
            columns_.stack([as_leaf(v, path) for v in values])
            for values, path in zip(leaves, paths, strict=True)
        ]
        return cls._trusted(structure, made, len(rows))

    @classmethod
    def from_elements(cls, elements: Sequence[Any]) -> Block:
        """Stack elements, one at least, which must all have the structure of the first."""
        if not elements:
            raise UsageError("Block.from_elements: without an element, the structure is not known.")
        structure = flatten(elements[0])[1]
        return cls.from_rows(structure, [structure.leaves_of(element) for element in elements])

    @classmethod
    def concat(cls, blocks: Sequence[Block]) -> Block:
        """The rows of all blocks. They must have one structure; columns of different kinds are reconciled."""
        if not blocks:
            raise UsageError("Block.concat: without a block, the structure is not known.")
        first = blocks[0]
        for block in blocks:
            if block.structure != first.structure:
                raise UsageError(f"Block.concat: {block.structure} does not fit {first.structure}.")
        if len(blocks) == 1:
            return first
        parts = zip(*(block.columns for block in blocks), strict=True)
        joined = [columns_.concat(part) for part in parts]
        return cls._trusted(first.structure, joined, sum(block.rows for block in blocks))

    def slice(self, begin: int, end: int) -> Block:
        """Rows begin to end, without a copy."""
        if not 0 <= begin <= end <= self.rows:
            raise UsageError(f"Block.slice({begin}, {end}): the block has rows 0 to {self.rows}.")
        cut = [columns_.slice_of(column, begin, end) for column in self.columns]
        return Block._trusted(self.structure, cut, end - begin)

    def take(self, indices: Any) -> Block:
        """The rows at `indices`, in their order; a row may come more than once."""
        given = np.asarray(indices)
        if given.ndim != 1 or (given.dtype.kind not in "iu" and given.size):
            raise UsageError(
                "Block.take: indices must be integers in one dimension, "
                f"not {given.dtype} of shape {given.shape}."
            )
        wanted = np.ascontiguousarray(given, np.int64)
        try:
            taken = [columns_.take(column, wanted) for column in self.columns]
            if not taken:
                columns_.check_indices(wanted, self.rows)
        except IndexError as error:
            raise UsageError(f"Block.take: {error}; rows are counted from 0.") from None
        return Block._trusted(self.structure, taken, len(wanted))

    def row(self, index: int) -> Any:
        """One element."""
        if not 0 <= index < self.rows:
            raise UsageError(f"Block.row({index}): the block has {self.rows} rows, counted from 0.")
        return self.structure.unflatten([columns_.row_of(column, index) for column in self.columns])

    def __iter__(self) -> Iterator[Any]:
        """The elements, one by one."""
        if not self.columns:
            return (self.structure.unflatten(()) for _ in range(self.rows))
        leaves = zip(*map(columns_.iter_rows, self.columns), strict=True)
        return map(self.structure.unflatten, leaves)

    def __len__(self) -> int:
        return self.rows

    def as_batch(self) -> Any:
        """All elements as one: the tree of arrays and Ragged that `batch` hands out, aligned."""
        return self.structure.unflatten([columns_.as_batch(columns_.aligned(c)) for c in self.columns])

    @property
    def nbytes(self) -> int:
        return sum(map(columns_.nbytes, self.columns))

    @property
    def spec(self) -> Any:
        """The spec of an element: the narrowest that all rows fit."""
        return self.structure.unflatten([columns_.row_spec(column) for column in self.columns])

    def equals(self, other: object) -> bool:
        """Has the other the same rows, bit for bit, in the same kinds of columns?"""
        return (
            isinstance(other, Block)
            and (self.structure, self.rows) == (other.structure, other.rows)
            and all(map(columns_.same, self.columns, other.columns))
        )

    def __repr__(self) -> str:
        return f"<Block, {self.rows} rows: {self.spec}>"


def _check(column: Column, rows: int) -> None:
    if not isinstance(column, np.ndarray | Ragged | Bytes | Objects):
        raise UsageError(f"{type(column).__name__} is no column.")
    if isinstance(column, np.ndarray):
        if column.ndim == 0:
            raise UsageError("a column needs a first axis, of rows; this array has no dimensions.")
        if dtype_name(column.dtype) == "string":
            raise UsageError("strings are held in a Bytes column, not in an array of objects.")
    if columns_.length(column) != rows:
        raise UsageError(f"the column has {columns_.length(column)} rows, the block {rows}.")

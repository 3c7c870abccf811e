"""unbatch: each element is a batch, and gives the rows of its arrays. Nothing is copied."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np

from feedline.block import Block
from feedline.column import Bytes, Column, Objects, Ragged, from_batch, length, row_of, slice_of
from feedline.errors import UsageError, WrongKind
from feedline.graph import UNKNOWN, Context, Cursor, Indices, Node, Peek, State, Stream, cardinality
from feedline.spec import ArraySpec, DatasetSpec, ObjectSpec, RaggedSpec, Spec, leaf_spec
from feedline.structure import flatten


@dataclass(frozen=True, eq=False)
class Unbatch(Node):
    """The rows of a batch are one block: a column of it is Ragged only where the batch is."""

    input: Node

    def __post_init__(self) -> None:
        spec = self.input.spec(None)
        if spec is None:
            return
        leaves, structure = flatten(spec)
        sizes: dict[int, str] = {}
        for leaf, path in zip(leaves, structure.paths(), strict=True):
            if not isinstance(leaf, ObjectSpec) and leaf.shape is not None:
                if leaf.shape == ():
                    raise UsageError(f"{self.name}: {path} is {leaf}{_SCALAR}")
                if leaf.shape[0] is not None:
                    sizes.setdefault(leaf.shape[0], path)
        if len(sizes) > 1:
            found = " and ".join(f"{path} has {size:,}" for size, path in sizes.items())
            raise UsageError(f"{self.name}: all arrays of an element must have as many rows, but {found}.")

    def batch_size(self) -> int | None:
        """The number of rows of every element, if that is known."""
        spec = self.input.spec(None)
        for leaf in [] if spec is None else flatten(spec)[0]:
            # A scalar may only be known of since elements came. They are refused when they are read.
            if not isinstance(leaf, ObjectSpec) and leaf.shape and leaf.shape[0] is not None:
                size: int = leaf.shape[0]
                return size
        return None

    def cardinality(self) -> int:
        batches, size = self.input.cardinality(), self.batch_size()
        return cardinality.apply(batches, batches * size if size else UNKNOWN)

    def spec(self, peek: Peek | None) -> Any:
        of_input = self.input.spec(peek)
        if of_input is None:
            return None
        leaves, structure = flatten(of_input)
        return structure.unflatten([_row_spec(leaf) for leaf in leaves])

    def open(self, context: Context, state: State) -> Stream:
        return _UnbatchStream(self, context, state)


_SCALAR = ", which has no rows.\n  Unbatch after batch(...), or take the scalar out with map(...)."


def _row_spec(leaf: Spec) -> Spec:
    if isinstance(leaf, RaggedSpec) and leaf.ragged_rank:
        return RaggedSpec(leaf.shape[1:], leaf.dtype, leaf.ragged_rank - 1)
    if isinstance(leaf, DatasetSpec):
        return replace(leaf, shape=leaf.shape[1:])
    if isinstance(leaf, ObjectSpec):
        return leaf
    return ArraySpec(None if leaf.shape is None else leaf.shape[1:], leaf.dtype)


class _UnbatchStream(Stream):
    def __init__(self, node: Unbatch, context: Context, state: State) -> None:
        self._node = node
        self._context = context
        self._batches = Cursor(context, node.input, state)
        self._size = node.batch_size()  # of a batch, about

    def next(self, limit: int) -> Block | None:
        while True:
            # Batches may be dear to make: not more than are asked for, and one until their size is known.
            batches = 1 if self._size is None else limit // max(1, self._size)
            block = self._batches.peek(max(1, min(batches, self._context.block_rows)))
            if block is None:
                return None
            if any(isinstance(column, Objects) for column in block.columns):
                block = block.slice(0, 1)
            block = self._sound(block)
            self._batches.advance(block.rows)
            columns = [_rows(column) for column in block.columns]
            rows = length(columns[0])
            self._size = rows // block.rows
            if rows:
                return Block._trusted(block.structure, columns, rows)

    def _sound(self, block: Block) -> Block:
        """The batches up to one whose arrays have not as many rows each. If it is the first, it is raised."""
        wanted: int | Indices | None = None
        end = block.rows
        for number, column in enumerate(block.columns):
            found = _sizes(column)
            wanted = found if wanted is None else wanted
            if found is None:
                self._refuse(block, number)
            different = np.flatnonzero(np.broadcast_to(found != wanted, block.rows))
            if len(different):
                end = min(end, int(different[0]))
                if end == 0:
                    self._refuse(block, number)
        return block.slice(0, end)

    def _refuse(self, block: Block, number: int) -> NoReturn:
        at = self._batches.passed
        self._batches.advance(1)
        paths = block.structure.paths()
        first, spec = (leaf_spec(row_of(block.columns[one], 0)) for one in (0, number))
        what = f"{self._node}: element {at:,} has {spec} at {paths[number]}"
        if _sizes(block.columns[number]) is None:
            raise WrongKind(f"{what}{_SCALAR}")
        raise UsageError(
            f"{what}, and {first} at {paths[0]}.\n  All arrays of an element must have as many rows."
        )

    def state(self) -> State:
        return self._batches.state()

    def close(self) -> None:
        self._batches.close()


def _sizes(column: Column) -> int | Indices | None:
    """How many rows each batch has; None for scalars. There is only one batch in Objects."""
    if isinstance(column, Ragged):
        return column.lengths
    if isinstance(column, Objects):
        batch = column.items[0]
        has_rows = isinstance(batch, Ragged | Objects) or (isinstance(batch, np.ndarray) and batch.ndim > 0)
        return len(batch) if has_rows else None
    shape = column.shape[1:] if isinstance(column, np.ndarray) else column.shape
    return shape[0] if shape else None


def _rows(column: Column) -> Column:
    """Of all batches, end to end."""
    if isinstance(column, np.ndarray):
        return column.reshape(column.shape[0] * column.shape[1], *column.shape[2:])
    if isinstance(column, Bytes):
        return Bytes(column.data, column.offsets, column.shape[1:], column.rows * column.shape[0])
    if isinstance(column, Ragged):
        return slice_of(column._values, int(column._offsets[0]), int(column._offsets[-1]))
    return from_batch(column.items[0], "a batch")

"""from_tensor_slices: the rows of arrays, and from_tensors: arrays as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from feedline.block import Block
from feedline.column import Column, Ragged, from_batch, row_of, row_spec
from feedline.errors import UsageError
from feedline.graph import Context, Indices, Node, Peek, State, Stream
from feedline.spec import RaggedSpec, Spec, as_leaf, leaf_spec
from feedline.structure import Structure, flatten


@dataclass(frozen=True, eq=False)
class TensorSlices(Node):
    """The rows of a block that is in memory."""

    block: Block

    @classmethod
    def of_slices(cls, tree: Any, **site: Any) -> TensorSlices:
        leaves, structure = flatten(tree)
        paths = [path.replace("element", "tensors", 1) for path in structure.paths()]
        if not leaves:
            raise UsageError("from_tensor_slices: there is no array in what was given.")
        columns = []
        for leaf, path in zip(leaves, paths, strict=True):
            columns.append(from_batch(as_leaf(leaf, path), f"from_tensor_slices: {path}"))
        lengths = [len(column) for column in columns]
        for length, path in zip(lengths, paths, strict=True):
            if length != lengths[0]:
                raise UsageError(
                    f"from_tensor_slices: {path} has {length:,} rows, and {paths[0]} has {lengths[0]:,}.\n"
                    "  All must have the same first dimension."
                )
        return cls(read_only(structure, columns, lengths[0]), **site)

    @classmethod
    def of_whole(cls, tree: Any, **site: Any) -> TensorSlices:
        block = Block.from_elements([tree])
        if not block.columns:
            raise UsageError("from_tensors: there is no array in what was given.")
        return cls(read_only(block.structure, block.columns, 1), **site)

    def length(self) -> int:
        return self.block.rows

    def cardinality(self) -> int:
        return self.block.rows

    def spec(self, peek: Peek | None) -> Any:
        return self.block.structure.unflatten([_row_spec(column) for column in self.block.columns])

    def gather(self, indices: Indices, context: Context) -> Block:
        return self.block.take(indices)

    def open(self, context: Context, state: State) -> Stream:
        return _Slices(self.block, context.block_rows, state)


def read_only(structure: Structure, columns: Sequence[Column], rows: int) -> Block:
    """Functions get rows of these very arrays: what one changed in place would be so in the next epoch."""
    return Block._trusted(structure, [_frozen(column) for column in columns], rows)


def _frozen(column: Column) -> Column:
    if isinstance(column, np.ndarray):
        column = column.view()
        column.flags.writeable = False
    elif isinstance(column, Ragged):
        column = Ragged._trusted(_frozen(column._values), column._offsets)
    return column


def _row_spec(column: Column) -> Spec:
    """Of a row. That of a Ragged is marked as ragged, though an array: so batch makes a Ragged again."""
    if not isinstance(column, Ragged):
        return row_spec(column)
    whole = column.spec
    if len(column) == 1 and whole.ragged_rank > 1:
        return leaf_spec(row_of(column, 0))
    return RaggedSpec(whole.shape[1:], whole.dtype, whole.ragged_rank - 1)


class _Slices(Stream):
    def __init__(self, block: Block, rows: int, state: State) -> None:
        self._block = block
        self._rows = rows
        self._at = state or 0

    def next(self, limit: int) -> Block | None:
        begin, end = self._at, min(self._at + min(limit, self._rows), self._block.rows)
        if begin >= end:
            return None
        self._at = end
        return self._block.slice(begin, end)

    def state(self) -> State:
        return self._at

"""batch: consecutive elements stacked along a new first axis."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from feedline.block import Block
from feedline.column import Bytes, Column, Objects, Ragged, row_of, slice_of
from feedline.errors import UsageError
from feedline.graph import Context, Cursor, Indices, Node, Peek, State, Stream, cardinality
from feedline.graph.alike import known_spec
from feedline.graph.arguments import check_bool, check_int
from feedline.graph.memory import Account
from feedline.graph.span import Span
from feedline.joining import stack
from feedline.ops.nested import are_datasets
from feedline.spec import ArraySpec, DatasetSpec, ObjectSpec, RaggedSpec, Spec, leaf_spec
from feedline.structure import flatten

_REMEDY = "Make the batches smaller, or raise the limit."


class Batching(Node):
    """What batch and padded_batch have in common: which elements go together."""

    is_portable = True

    input: Node
    batch_size: int
    drop_remainder: bool

    def _of(self, elements: int) -> int:
        return elements // self.batch_size if self.drop_remainder else -(-elements // self.batch_size)

    def length(self) -> int | None:
        length = self.input.length()
        return length if length is None else self._of(length)

    def cardinality(self) -> int:
        of_input = self.input.cardinality()
        return cardinality.apply(of_input, self._of(of_input))

    @property
    def rows_each(self) -> int:
        return self.batch_size

    def span(self, begin: int, end: int) -> Span:
        """The elements of some consecutive batches."""
        length, last = self.input.length(), end * self.batch_size
        return Span(self.input, begin * self.batch_size, last if length is None else min(last, length))

    def groups(self, indices: Indices, context: Context) -> Iterator[tuple[Block, int]]:
        """The elements of each of these batches, and the number of the first."""
        length = self.input.length()
        assert length is not None
        starts = indices * self.batch_size
        ends = np.minimum(starts + self.batch_size, length)
        rows = np.concatenate([np.arange(a, b) for a, b in zip(starts, ends, strict=True)])
        block = context.gather(self.input, rows)
        at = 0
        for first, size in zip(starts.tolist(), (ends - starts).tolist(), strict=True):
            yield block.slice(at, at + size), first
            at += size


@dataclass(frozen=True, eq=False)
class Batch(Batching):
    input: Node
    batch_size: int
    drop_remainder: bool

    def __post_init__(self) -> None:
        check_int(self, "batch_size", 1, "a batch has 1 element at least.")
        check_bool(self, "drop_remainder")

    def spec(self, peek: Peek | None) -> Any:
        return batch_spec(self.input.spec(peek), self.batch_size if self.drop_remainder else None)

    def gather(self, indices: Indices, context: Context) -> Block:
        maker = BatchMaker(self, context)
        return Block.concat([maker.one(rows, first) for rows, first in self.groups(indices, context)])

    def open(self, context: Context, state: State) -> Stream:
        return _BatchStream(self, context, self.input, state)

    def open_span(self, context: Context, begin: int, end: int) -> Stream:
        return _BatchStream(self, context, self.span(begin, end), [None, 0, begin * self.batch_size])


def batch_spec(of_rows: Any, size: int | None) -> Any:
    """The spec of batches of `size` rows, or of changing sizes; None if nothing is known of the rows."""
    if of_rows is None:
        return None
    leaves, structure = flatten(of_rows)
    return structure.unflatten([_batch_spec(leaf, size) for leaf in leaves])


def _batch_spec(leaf: Spec, size: int | None) -> Spec:
    if isinstance(leaf, RaggedSpec):
        return RaggedSpec((size, *leaf.shape), leaf.dtype, leaf.ragged_rank + 1)
    if isinstance(leaf, ArraySpec):
        return ArraySpec(None if leaf.shape is None else (size, *leaf.shape), leaf.dtype)
    return replace(leaf, shape=(size, *leaf.shape)) if isinstance(leaf, DatasetSpec) else ObjectSpec()


def batch_account(node: Node, context: Context) -> Account:
    """For the rows of a batch until they are joined."""
    return context.budget.account(node, "a batch, while its rows are joined,", _REMEDY)


class _BatchStream(Stream):
    def __init__(self, node: Batch, context: Context, input: Node, state: State) -> None:
        self._node = node
        self._batches = max(1, context.block_rows // node.batch_size)
        self._bytes = context.block_bytes
        self._rows = Cursor(context, input, state)
        self._maker = BatchMaker(node, context)
        self.account: Account = batch_account(node, context)

    def next(self, limit: int) -> Block | None:
        size = self._node.batch_size
        block = self._rows.peek(size * min(limit, self._batches))
        if block is None:
            return None
        if block.rows >= size:
            count = block.rows // size
            if block.is_picked:  # and copied now: not more at a time than memory is worth
                count = max(1, min(count, self._bytes // max(1, block.nbytes // block.rows * size)))
            whole = block.slice(0, count * size)
            batches = self._maker.many(whole, size)
            if batches is not None:
                self._rows.advance(whole.rows)
                return batches
        first = self._rows.passed
        block = Block.concat(self._rows.collect(size, self.account))
        self.account.hold(0)
        if block.rows < size and self._node.drop_remainder:
            return None
        return self._maker.one(block, first)

    def state(self) -> State:
        return self._rows.state()

    def close(self) -> None:
        self._rows.close()


class BatchMaker:
    """Makes batches of rows. Values whose length changes are stacked only where the spec has them ragged."""

    def __init__(self, node: Batch, context: Context) -> None:
        self._node = node
        self._context = context
        self._ragged_leaves: list[bool] | None = None

    def many(self, block: Block, size: int) -> Block | None:
        """The batches of rows that are all alike; None when they are not, or perhaps not."""
        made = []
        for number, column in enumerate(block.columns):
            if not isinstance(column, np.ndarray | Bytes) and not self._is_ragged(number, block):
                return None
            made.append(regroup(column, size))
        return Block._trusted(block.structure, made, block.rows // size)

    def one(self, block: Block, first: int) -> Block:
        """All rows as one batch; `first` is the number of the first of them, for the error."""
        made = []
        for number, column in enumerate(block.columns):
            if not isinstance(column, np.ndarray | Bytes) and not self._is_ragged(number, block):
                column = _dense(column, partial(self._refuse, block, number, first))
            made.append(regroup(column, block.rows))
        return Block._trusted(block.structure, made, 1)

    def _is_ragged(self, number: int, block: Block) -> bool:
        column = block.columns[number]
        if not isinstance(column, Ragged):
            return False
        if self._ragged_leaves is None:
            spec = known_spec(self._node.input, block, self._context)
            leaves = [None] * block.structure.leaf_count if spec is None else flatten(spec)[0]
            self._ragged_leaves = [isinstance(leaf, RaggedSpec) for leaf in leaves]
        # Rows that are Ragged themselves can only be stacked into a Ragged.
        return self._ragged_leaves[number] or isinstance(column._values, Ragged)

    def _refuse(self, block: Block, number: int, first: int, row: int) -> None:
        path = block.structure.paths()[number]
        one, other = (leaf_spec(row_of(block.columns[number], at)) for at in (0, row))
        if isinstance(one, ObjectSpec):
            raise UsageError(f"{self._node}: {path} is no array, but an object that cannot be stacked.")
        raise UsageError(
            f"{self._node}: element {first + row:,} has {other} at {path}, and element {first:,}, the first "
            f"of its batch, {one}.\n"
            "  The elements of a batch must have equal shapes. To fill them up:  padded_batch(...)"
        )


def regroup(column: Column, size: int) -> Column:
    """Each `size` rows as one."""
    if isinstance(column, np.ndarray):
        return column.reshape(len(column) // size, size, *column.shape[1:])
    if isinstance(column, Bytes):
        return Bytes(column.data, column.offsets, (size, *column.shape), column.rows // size)
    if isinstance(column, Objects):
        starts = range(0, len(column), size)
        return Objects([Objects(column.items[start : start + size]) for start in starts])
    return Ragged._trusted(column, np.arange(0, len(column) + 1, size, dtype=np.int64))


def _dense(column: Column, refuse: Callable[[int], None]) -> Column:
    """Rows that must all have one shape, as an array; else `refuse` is called with the first that has not.

    Datasets stay objects.
    """
    if are_datasets(column):
        return column
    if isinstance(column, Objects):
        # It may be the rows of other batches that did not fit.
        specs = [leaf_spec(item) for item in column.items]
        column = stack(column.items)
        if isinstance(column, Objects):
            refuse(next((row for row, spec in enumerate(specs) if spec != specs[0]), 0))
    if isinstance(column, Ragged) and not isinstance(column._values, Ragged):
        lengths = column.lengths
        different = np.flatnonzero(lengths != lengths[0])
        if len(different):
            refuse(int(different[0]))
        values = slice_of(column._values, int(column._offsets[0]), int(column._offsets[-1]))
        assert isinstance(values, np.ndarray | Bytes)
        if isinstance(values, Bytes):
            return Bytes(values.data, values.offsets, (int(lengths[0]), *values.shape), len(column))
        return values.reshape(len(column), int(lengths[0]), *values.shape[1:])
    return column

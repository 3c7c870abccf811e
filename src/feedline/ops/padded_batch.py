"""padded_batch: consecutive elements filled up to one shape, and stacked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from feedline.block import Block
from feedline.graph import Context, Cursor, Indices, Node, Peek, State, Stream
from feedline.graph.arguments import check_bool, check_int
from feedline.graph.memory import Account
from feedline.ops.batch import Batching, batch_account
from feedline.ops.padding import Padder, Padding, check_padding


@dataclass(frozen=True, eq=False)
class PaddedBatch(Batching):
    input: Node
    batch_size: int
    padded_shapes: Any
    padding_values: Any
    drop_remainder: bool

    def __post_init__(self) -> None:
        check_int(self, "batch_size", 1, "a batch has 1 element at least.")
        check_bool(self, "drop_remainder")
        check_padding(self)

    def spec(self, peek: Peek | None) -> Any:
        return Padding.of(self).spec(self.input.spec(peek), self.batch_size if self.drop_remainder else None)

    def gather(self, indices: Indices, context: Context) -> Block:
        padder = Padder(self, Padding.of(self))
        groups = self.groups(indices, context)
        return Block.concat([padder.one(rows, range(first, first + rows.rows)) for rows, first in groups])

    def open(self, context: Context, state: State) -> Stream:
        return _PaddedBatchStream(self, context, self.input, state)

    def open_span(self, context: Context, begin: int, end: int) -> Stream:
        return _PaddedBatchStream(self, context, self.span(begin, end), [None, 0, begin * self.batch_size])


class _PaddedBatchStream(Stream):
    def __init__(self, node: PaddedBatch, context: Context, input: Node, state: State) -> None:
        self._node = node
        self._context = context
        self._batches = 1  # that go into a block, until it is known how large they are
        self._rows = Cursor(context, input, state)
        self._padder = Padder(node, Padding.of(node))
        self.account: Account = batch_account(node, context)

    def next(self, limit: int) -> Block | None:
        size = self._node.batch_size
        block = self._rows.peek(size * min(limit, self._batches))
        if block is None:
            return None
        made = self._padder.many(block, size) if block.rows >= 2 * size else None
        if made is None:
            made = self._one(block)
        else:
            self._rows.advance(made.rows * size)
        if made is not None:
            most = self._context.block_bytes * made.rows // max(1, made.nbytes)
            self._batches = max(1, min(most, self._context.block_rows // size))
        return made

    def _one(self, block: Block) -> Block | None:
        size, first = self._node.batch_size, self._rows.passed
        if block.rows >= size:
            block = block.slice(0, size)
            self._rows.advance(size)
        else:
            block = Block.concat(self._rows.collect(size, self.account))
            self.account.hold(0)
            if block.rows < size and self._node.drop_remainder:
                return None
        return self._padder.one(block, range(first, first + block.rows))

    def state(self) -> State:
        return self._rows.state()

    def close(self) -> None:
        self._rows.close()

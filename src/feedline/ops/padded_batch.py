"""padded_batch: consecutive elements filled up to one shape, and stacked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from feedline.block import Block
from feedline.graph import Context, Cursor, Indices, Node, Peek, State, Stream, cardinality
from feedline.graph.arguments import check_bool, check_int
from feedline.ops.padding import Padder, Padding, check_padding


@dataclass(frozen=True, eq=False)
class PaddedBatch(Node):
    input: Node
    batch_size: int
    padded_shapes: Any
    padding_values: Any
    drop_remainder: bool

    def __post_init__(self) -> None:
        check_int(self, "batch_size", 1, "a batch has 1 element at least.")
        check_bool(self, "drop_remainder")
        check_padding(self)

    def _of(self, elements: int) -> int:
        return elements // self.batch_size if self.drop_remainder else -(-elements // self.batch_size)

    def length(self) -> int | None:
        length = self.input.length()
        return length if length is None else self._of(length)

    def cardinality(self) -> int:
        of_input = self.input.cardinality()
        return cardinality.apply(of_input, self._of(of_input))

    def spec(self, peek: Peek | None) -> Any:
        return Padding.of(self).spec(self.input.spec(peek), self.batch_size if self.drop_remainder else None)

    def gather(self, indices: Indices, context: Context) -> Block:
        length = self.input.length()
        assert length is not None
        starts = indices * self.batch_size
        ends = np.minimum(starts + self.batch_size, length)
        rows = np.concatenate([np.arange(a, b) for a, b in zip(starts, ends, strict=True)])
        block = context.gather(self.input, rows)
        padder = Padder(self, Padding.of(self))
        parts, at = [], 0
        for start, size in zip(starts.tolist(), (ends - starts).tolist(), strict=True):
            parts.append(padder.one(block.slice(at, at + size), range(start, start + size)))
            at += size
        return Block.concat(parts)

    def open(self, context: Context, state: State) -> Stream:
        return _PaddedBatchStream(self, context, state)


class _PaddedBatchStream(Stream):
    def __init__(self, node: PaddedBatch, context: Context, state: State) -> None:
        self._node = node
        self._context = context
        self._batches = 1  # that go into a block, until it is known how large they are
        self._rows = Cursor(context, node.input, state)
        self._padder = Padder(node, Padding.of(node))

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
            block = Block.concat(self._rows.collect(size))
            if block.rows < size and self._node.drop_remainder:
                return None
        return self._padder.one(block, range(first, first + block.rows))

    def state(self) -> State:
        return self._rows.state()

    def close(self) -> None:
        self._rows.close()

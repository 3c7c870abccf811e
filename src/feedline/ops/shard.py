"""shard: every `num_shards`th element."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from feedline.block import Block
from feedline.errors import UsageError
from feedline.graph import Context, Cursor, Indices, Node, Peek, State, Stream, cardinality
from feedline.graph.arguments import check_int
from feedline.graph.indexed import InOrder


@dataclass(frozen=True, eq=False)
class Shard(Node):
    input: Node
    num_shards: int
    index: int

    passes_rows_on = True
    is_portable = True

    def __post_init__(self) -> None:
        check_int(self, "num_shards", 1, "there must be 1 shard at least.")
        check_int(self, "index", 0, "index must be 0 or more.")
        if self.index >= self.num_shards:
            raise UsageError(
                f"shard(num_shards={self.num_shards}, index={self.index}): index must be 0 to "
                f"{self.num_shards - 1}."
            )

    def _of(self, number: int) -> int:
        return max(0, -(-(number - self.index) // self.num_shards))

    def length(self) -> int | None:
        length = self.input.length()
        return length if length is None else self._of(length)

    def cardinality(self) -> int:
        of_input = self.input.cardinality()
        return cardinality.apply(of_input, self._of(of_input))

    def spec(self, peek: Peek | None) -> Any:
        return self.input.spec(peek)

    def is_read_by_index(self) -> bool:
        return self.length() is not None

    def gather(self, indices: Indices, context: Context) -> Block:
        return context.gather(self.input, indices * self.num_shards + self.index)

    def open(self, context: Context, state: State) -> Stream:
        if self.is_read_by_index():
            return InOrder(self, context, state)
        return _ShardStream(self, context, state)


class _ShardStream(Stream):
    def __init__(self, node: Shard, context: Context, state: State) -> None:
        self._node = node
        self._rows = Cursor(context, node.input, state)

    def next(self, limit: int) -> Block | None:
        shards = self._node.num_shards
        while True:
            first = self._rows.passed
            block = self._rows.take(limit * shards)
            if block is None:
                return None
            ours = np.arange((self._node.index - first) % shards, block.rows, shards)
            if len(ours):
                return block.take(ours)

    def state(self) -> State:
        return self._rows.state()

    def close(self) -> None:
        self._rows.close()

"""prefetch: the steps before run ahead, in a thread of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from feedline.block import Block
from feedline.graph import Context, Indices, Node, Peek, State, Stream
from feedline.graph.arguments import check_int

_BLOCKS = 4  # ahead, at most, of such a size as copied rows make


@dataclass(frozen=True, eq=False)
class Prefetch(Node):
    input: Node
    buffer_size: int  # elements; -1: a few blocks

    def __post_init__(self) -> None:
        check_int(self, "buffer_size", -1, "buffer_size must be 0 or more, or AUTOTUNE (-1).")

    def length(self) -> int | None:
        return self.input.length()

    def cardinality(self) -> int:
        return self.input.cardinality()

    def spec(self, peek: Peek | None) -> Any:
        return self.input.spec(peek)

    def gather(self, indices: Indices, context: Context) -> Block:
        return context.gather(self.input, indices)

    def open(self, context: Context, state: State) -> Stream:
        if self.buffer_size == 0:
            return context.open(self.input, state)
        rows, nbytes = self.buffer_size, None
        if rows < 0:
            rows, nbytes = 2 * context.block_rows, _BLOCKS * context.block_bytes
        return context.services.background(lambda inner: context.open(self.input, inner), state, rows, nbytes)

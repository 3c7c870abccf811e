"""prefetch: the steps before run ahead, in a thread of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from feedline.block import Block
from feedline.graph import Context, Indices, Node, Peek, State, Stream
from feedline.graph.arguments import check_int
from feedline.graph.span import Span


@dataclass(frozen=True, eq=False)
class Prefetch(Node):
    input: Node
    buffer_size: int  # elements; -1: as many as the consumer needs not to wait

    gives_its_input = True
    keeps_draws = True
    rows_each = 1

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

    def open_span(self, context: Context, begin: int, end: int) -> Stream:
        return context.open(Span(self.input, begin, end))

    def open(self, context: Context, state: State) -> Stream:
        if self.buffer_size == 0:
            return context.open(self.input, state)
        rows = None if self.buffer_size < 0 else self.buffer_size
        return context.services.background(
            lambda inner: context.open(self.input, inner), state, context, rows
        )

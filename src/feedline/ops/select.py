"""ds[a:b:c]: some elements of an indexed dataset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from feedline.block import Block
from feedline.graph import Context, Indices, Node, Peek, State, Stream
from feedline.graph.context import FIRST_EPOCH
from feedline.graph.indexed import InOrder


@dataclass(frozen=True, eq=False)
class Select(Node):
    """Every `step`th element from `start` on, `count` in all. The input must be indexed."""

    input: Node
    start: int
    step: int
    count: int

    def length(self) -> int:
        return self.count

    def cardinality(self) -> int:
        return self.count

    def spec(self, peek: Peek | None) -> Any:
        return self.input.spec(peek)

    def gather(self, indices: Indices, context: Context) -> Block:
        # Of a shuffled input, what `ds[i]` gives: the order of the first iteration, in every iteration.
        return context.at_epoch(FIRST_EPOCH).gather(self.input, self.start + indices * self.step)

    def open(self, context: Context, state: State) -> Stream:
        return InOrder(self, context, state)

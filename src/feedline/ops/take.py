"""take: the first elements only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from feedline.block import Block
from feedline.graph import INFINITE, Context, Cursor, Indices, Node, Peek, State, Stream
from feedline.graph.arguments import check_count


@dataclass(frozen=True, eq=False)
class Take(Node):
    """The first `count` elements; all of them if it is negative. The rest is never read."""

    input: Node
    count: int

    passes_rows_on = True
    is_portable = True

    def __post_init__(self) -> None:
        check_count(self)

    def _of(self, number: int) -> int:
        return number if self.count < 0 else min(number, self.count)

    def length(self) -> int | None:
        length = self.input.length()
        return length if length is None else self._of(length)

    def cardinality(self) -> int:
        cardinality = self.input.cardinality()
        if self.count < 0 or cardinality >= 0:
            return self._of(cardinality)
        return self.count if cardinality == INFINITE else cardinality

    def spec(self, peek: Peek | None) -> Any:
        return self.input.spec(peek)

    def gather(self, indices: Indices, context: Context) -> Block:
        return context.gather(self.input, indices)

    def open(self, context: Context, state: State) -> Stream:
        return context.open(self.input, state) if self.count < 0 else _TakeStream(self, context, state)


class _TakeStream(Stream):
    def __init__(self, node: Take, context: Context, state: State) -> None:
        self._count = node.count
        self._rows = Cursor(context, node.input, state)

    def next(self, limit: int) -> Block | None:
        left = self._count - self._rows.passed
        return self._rows.take(min(limit, left)) if left else None

    def state(self) -> State:
        return self._rows.state()

    def close(self) -> None:
        self._rows.close()

"""skip: without the first elements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from feedline.block import Block
from feedline.graph import INFINITE, Context, Cursor, Indices, Node, Peek, State, Stream, cardinality
from feedline.graph.arguments import check_count
from feedline.graph.indexed import InOrder


@dataclass(frozen=True, eq=False)
class Skip(Node):
    """All but the first `count` elements; nothing if it is negative.

    Of an indexed input, the skipped elements are not even computed.
    """

    input: Node
    count: int

    passes_rows_on = True
    is_portable = True

    def __post_init__(self) -> None:
        check_count(self)

    def _of(self, number: int) -> int:
        return 0 if self.count < 0 else max(0, number - self.count)

    def length(self) -> int | None:
        length = self.input.length()
        return length if length is None else self._of(length)

    def cardinality(self) -> int:
        of_input = self.input.cardinality()
        if self.count < 0 and of_input == INFINITE:
            return 0
        return cardinality.apply(of_input, self._of(of_input))

    def spec(self, peek: Peek | None) -> Any:
        return self.input.spec(peek)

    def is_read_by_index(self) -> bool:
        return self.length() is not None

    def gather(self, indices: Indices, context: Context) -> Block:
        return context.gather(self.input, indices + self.count)

    def open(self, context: Context, state: State) -> Stream:
        if self.is_read_by_index():
            return InOrder(self, context, state)
        return _SkipStream(self, context, state)


class _SkipStream(Stream):
    def __init__(self, node: Skip, context: Context, state: State) -> None:
        self._count = node.count
        self._rows = Cursor(context, node.input, state)

    def next(self, limit: int) -> Block | None:
        if self._count < 0:
            return None
        left = self._count - self._rows.passed
        if left > 0 and self._rows.skip(left) < left:
            return None
        return self._rows.take(limit)

    def state(self) -> State:
        return self._rows.state()

    def close(self) -> None:
        self._rows.close()

"""take_while: the elements up to the first for which a function says False."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from feedline.block import Block
from feedline.graph import UNKNOWN, Context, Cursor, Node, Peek, State, Stream
from feedline.graph.arguments import check_function
from feedline.graph.calls import blame, tells


@dataclass(frozen=True, eq=False)
class TakeWhile(Node):
    input: Node
    predicate: Callable[..., Any]

    runs_python = True

    def __post_init__(self) -> None:
        check_function(self, "predicate")

    def cardinality(self) -> int:
        return UNKNOWN

    def spec(self, peek: Peek | None) -> Any:
        return self.input.spec(peek)

    def open(self, context: Context, state: State) -> Stream:
        return _TakeWhileStream(self, context, state)


class _TakeWhileStream(Stream):
    def __init__(self, node: TakeWhile, context: Context, state: State) -> None:
        self._node = node
        self._context = context
        self._rows = Cursor(context, node.input, state)
        self._goes_on = tells(node.predicate, node.name)
        self._ended = False
        self._error: Exception | None = None  # of the next element, after the rows in front of it

    def next(self, limit: int) -> Block | None:
        if self._error is None:
            block = None if self._ended else self._rows.peek(limit)
            if block is None:
                return None
            good = self._good_rows(block)
            if good:
                self._rows.advance(good)
                return block.slice(0, good)
            # The element that ends it is never passed: a restored stream asks the function for it again.
            if self._ended:
                return None
        assert self._error is not None
        error, self._error = self._error, None
        self._rows.advance(1)
        raise error

    def _good_rows(self, block: Block) -> int:
        late = self._context.services.deadline()
        for row, element in enumerate(block):
            try:
                if not self._goes_on(element):
                    self._ended = True
                    return row
            except Exception as error:
                blame(error, self._node, self._rows.passed + row)
                self._error = error
                return row
            if late():
                return row + 1
        return block.rows

    def state(self) -> State:
        return self._rows.state()

    def close(self) -> None:
        self._rows.close()

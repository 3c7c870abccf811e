"""filter: the elements for which a function says True."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from feedline.block import Block
from feedline.graph import UNKNOWN, Context, Cursor, Node, Peek, State, Stream
from feedline.graph.arguments import check_function
from feedline.graph.calls import blame, tells


@dataclass(frozen=True, eq=False)
class Filter(Node):
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
        return _FilterStream(self, context, state)


class _FilterStream(Stream):
    def __init__(self, node: Filter, context: Context, state: State) -> None:
        self._node = node
        self._context = context
        self._rows = Cursor(context, node.input, state)
        self._keeps = tells(node.predicate, node)

    def next(self, limit: int) -> Block | None:
        late = self._context.services.deadline()
        while (block := self._rows.peek(self._context.block_rows)) is not None:
            kept: list[int] = []
            row = -1
            try:
                for row, element in enumerate(block):
                    if self._keeps(element):
                        kept.append(row)
                        if len(kept) == limit or late():
                            break
            except Exception as error:
                if kept:
                    # First what is in front of it; then the function is asked again.
                    self._rows.advance(row)
                    return self._chosen(block, kept, row)
                blame(error, self._node, self._rows.passed + row)
                self._rows.advance(row + 1)
                raise
            self._rows.advance(row + 1)
            if kept:
                return self._chosen(block, kept, row + 1)
        return None

    def _chosen(self, block: Block, kept: list[int], rows: int) -> Block:
        return block.slice(0, rows) if len(kept) == rows else block.take(kept)

    def state(self) -> State:
        return self._rows.state()

    def close(self) -> None:
        self._rows.close()

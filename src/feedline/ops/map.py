"""map: a function of each element."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from feedline.block import Block
from feedline.graph import Context, Cursor, Indices, Node, Peek, State, Stream
from feedline.graph.arguments import check_function
from feedline.graph.calls import Collector, blame, results


@dataclass(frozen=True, eq=False)
class Map(Node):
    input: Node
    function: Callable[..., Any]

    def __post_init__(self) -> None:
        check_function(self, "function")

    def length(self) -> int | None:
        return self.input.length()

    def cardinality(self) -> int:
        return self.input.cardinality()

    def spec(self, peek: Peek | None) -> Any:
        return peek(self) if peek else None

    def gather(self, indices: Indices, context: Context) -> Block:
        collector = Collector(self)
        values, error = results(self.function, self.input.gather(indices, context), lambda: False)
        error = collector.add_all(values) or error
        if error is not None:
            blame(error, self, int(indices[len(collector)]))
            raise error
        return collector.block()

    def open(self, context: Context, state: State) -> Stream:
        return _MapStream(self, context, state)


class _MapStream(Stream):
    def __init__(self, node: Map, context: Context, state: State) -> None:
        self._node = node
        self._context = context
        self._rows = Cursor(context, node.input, state)
        self._results = Collector(node)
        self._error: Exception | None = None  # of the next element, after the results in front of it

    def next(self, limit: int) -> Block | None:
        if self._error is None:
            block = self._rows.peek(limit)
            if block is None:
                return None
            self._fill(block)
            if len(self._results):
                self._rows.advance(len(self._results))
                return self._results.block()
        assert self._error is not None
        error, self._error = self._error, None
        self._rows.advance(1)
        raise error

    def _fill(self, block: Block) -> None:
        self._results.clear()  # of what an interrupt left behind
        values, error = results(self._node.function, block, self._context.services.deadline())
        self._error = self._results.add_all(values) or error
        if self._error is not None:
            blame(self._error, self._node, self._rows.passed + len(self._results))

    def state(self) -> State:
        return self._rows.state()

    def close(self) -> None:
        self._rows.close()

"""map: a function of each element."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from feedline.block import Block
from feedline.graph import Context, Indices, Node, Peek, State, Stream
from feedline.graph.arguments import check_function
from feedline.graph.calls import Collector, blame, results
from feedline.ops.each import EachStream


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
        values, error = results(self.function, context.gather(self.input, indices), lambda: False)
        error = collector.add_all(values) or error
        if error is not None:
            blame(error, self, int(indices[len(collector)]))
            raise error
        return collector.block()

    def open(self, context: Context, state: State) -> Stream:
        return _MapStream(self, context, self.input, state)


class _MapStream(EachStream):
    _node: Map

    def _fill(self, block: Block) -> Exception | None:
        values, error = results(self._node.function, block, self._context.services.deadline())
        return self._results.add_all(values) or error

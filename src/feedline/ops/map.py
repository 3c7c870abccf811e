"""map: a function of each element."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from feedline.block import Block
from feedline.graph import Context, Indices, Node, Peek, State, Stream, tree
from feedline.graph.arguments import check_function
from feedline.graph.calls import Collector, blame, results
from feedline.graph.rng import Draws
from feedline.graph.span import Span
from feedline.ops.each import EachStream, ParallelStream


@dataclass(frozen=True, eq=False)
class Map(Node):
    input: Node
    function: Callable[..., Any]
    calls: int | None = field(default=None, compare=False)  # at the same time; None: one by one, here
    executor: str | None = field(default=None, compare=False)

    runs_python = True
    may_draw = True  # its function may call rng()
    rows_each = 1

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
        rows = context.gather(self.input, indices)
        values, error = results(self.function, rows, lambda: False, self.draws(context), indices.tolist())
        error = collector.add_all(values) or error
        if error is not None:
            blame(error, self, int(indices[len(collector)]))
            raise error
        return collector.block()

    def draws(self, context: Context) -> Draws:
        before = sum(not node.keeps_draws for node in tree(self.input))
        return Draws(before, context.epoch)

    def open(self, context: Context, state: State) -> Stream:
        return self._open(context, self.input, state)

    def open_span(self, context: Context, begin: int, end: int) -> Stream:
        return self._open(context, Span(self.input, begin, end), [None, 0, begin])

    def _open(self, context: Context, input: Node, state: State) -> Stream:
        places = context.places(self.calls)
        if places is None:
            return _MapStream(self, context, input, state)
        job = _Calls(self.function, self.draws(context), str(self))
        # Threads of this process would read no faster than it does.
        by_number = self.executor != "thread"
        return ParallelStream(job, context, input, state, places, self.executor, by_number)


@dataclass(frozen=True)
class _Calls:
    """The function of each of some rows."""

    function: Callable[..., Any]
    draws: Draws
    step: str

    def run(self, rows: Block, first: int, late: Callable[[], bool]) -> tuple[Collector, Exception | None]:
        collector = Collector(self.step)
        numbers = range(first, first + rows.rows)
        values, error = results(self.function, rows, late, self.draws, numbers)
        return collector, collector.add_all(values) or error


class _MapStream(EachStream):
    _node: Map

    def __init__(self, node: Map, context: Context, input: Node, state: State) -> None:
        super().__init__(node, context, input, state)
        self._draws = node.draws(context)

    def _fill(self, block: Block) -> Exception | None:
        late = self._context.services.deadline()
        numbers = range(self._rows.passed, self._rows.passed + block.rows)
        values, error = results(self._node.function, block, late, self._draws, numbers)
        return self._results.add_all(values) or error

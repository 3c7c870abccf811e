"""filter: the elements for which a function says True."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from feedline.block import Block
from feedline.graph import UNKNOWN, Context, Cursor, Indices, Node, Peek, State, Stream
from feedline.graph.arguments import check_function
from feedline.graph.calls import Collector, blame, tells
from feedline.ops.each import ParallelStream


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
        places = context.places(None)
        if places is None:
            return _FilterStream(self, context, state)
        job = _Tells(self.predicate, self.name, str(self))
        return _ParallelFilterStream(job, context, self.input, state, places)


def _chosen(block: Block, kept: Sequence[int] | Indices) -> Block:
    return block if len(kept) == block.rows else block.take(kept)


@dataclass(frozen=True)
class _Tells:
    """What the predicate says of each of some rows. The rows themselves stay where they are."""

    function: Callable[..., Any]
    name: str
    step: str

    def run(self, rows: Block, first: int, late: Callable[[], bool]) -> tuple[Collector, Exception | None]:
        said = Collector(self.step)
        keeps = tells(self.function, self.name)
        try:
            for element in rows:
                said.add(np.bool_(keeps(element)))
                if late():
                    break
        except Exception as error:
            return said, error
        return said, None


class _ParallelFilterStream(ParallelStream):
    def next(self, limit: int) -> Block | None:
        while (done := self._next_done()) is not None:
            (said,) = done.results.columns
            kept = np.flatnonzero(np.asarray(said))
            if len(kept):
                return _chosen(done.rows, kept)
        return None


class _FilterStream(Stream):
    def __init__(self, node: Filter, context: Context, state: State) -> None:
        self._node = node
        self._context = context
        self._rows = Cursor(context, node.input, state)
        self._keeps = tells(node.predicate, node.name)
        self._error: Exception | None = None  # of the next element, after the rows in front of it

    def next(self, limit: int) -> Block | None:
        late = self._context.services.deadline()
        while self._error is None:
            block = self._rows.peek(self._context.block_rows)
            if block is None:
                return None
            kept: list[int] = []
            row = -1
            try:
                for row, element in enumerate(block):
                    if self._keeps(element):
                        kept.append(row)
                        if len(kept) == limit or late():
                            break
                passed = row + 1
            except Exception as error:
                passed, self._error = row, error
                blame(error, self._node, self._rows.passed + row)
            self._rows.advance(passed)
            if kept:
                return _chosen(block.slice(0, passed), kept)
        failed, self._error = self._error, None
        self._rows.advance(1)
        raise failed

    def state(self) -> State:
        return self._rows.state()

    def close(self) -> None:
        self._error = None  # which knows the frame it was raised in, and so this stream
        self._rows.close()

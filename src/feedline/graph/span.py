"""A Span: some consecutive elements of an indexed node, and nothing of the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

from feedline.block import Block
from feedline.graph.context import Context
from feedline.graph.indexed import InOrder
from feedline.graph.node import Node, Peek
from feedline.graph.stream import Indices, State, Stream


@runtime_checkable
class OpensSpans(Protocol):
    """A node that opens spans by opening a span of its input: each of its rows follows from `rows_each`
    consecutive rows of the input. So it needs no index where the context can open the input's spans."""

    input: Node
    runs_python: ClassVar[bool]

    @property
    def rows_each(self) -> int: ...

    def context_for_input(self, context: Context) -> Context: ...

    def open_span(self, context: Context, begin: int, end: int) -> Stream:
        """The elements from `begin` to `end`, the same as ever. States of the stream are not kept."""
        ...


@dataclass(frozen=True, eq=False)
class Span(Node):
    input: Node
    begin: int
    end: int

    is_portable = True

    def length(self) -> int:
        return self.end - self.begin

    def cardinality(self) -> int:
        return self.length()

    def spec(self, peek: Peek | None) -> Any:
        return self.input.spec(peek)

    def is_read_by_index(self) -> bool:
        return not isinstance(self.input, OpensSpans) and self.input.length() is not None

    def gather(self, indices: Indices, context: Context) -> Block:
        return context.gather(self.input, self.begin + indices)

    def open(self, context: Context, state: State) -> Stream:
        if isinstance(self.input, OpensSpans):
            stream = self.input.open_span(context, self.begin, self.end)
            return context.services.measured(self.input, stream, context)
        opener = context.span_openers.get(self.input)
        if opener is not None:
            return opener(self.begin, self.end)
        return InOrder(self, context, state)

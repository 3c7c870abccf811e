"""with_options: how the steps before are to be run. What they give stays the same."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from feedline.block import Block
from feedline.graph import Context, Indices, Node, Peek, State, Stream
from feedline.graph.arguments import bytes_of, check_bool, check_int
from feedline.graph.span import Span
from feedline.records.open_files import FileBudget


@dataclass(frozen=True, eq=False)
class Options(Node):
    """Of those that are None, nothing is said."""

    input: Node
    max_open_files: int | None = field(default=None, compare=False)
    memory_limit: int | str | None = field(default=None, compare=False)  # once it is made, in bytes
    deterministic: bool | None = None
    workers: int | None = field(default=None, compare=False)

    passes_rows_on = True
    gives_its_input = True
    keeps_draws = True
    rows_each = 1

    def __post_init__(self) -> None:
        if self.max_open_files is not None:
            check_int(self, "max_open_files", 1, "one file at least must be open.")
        if self.memory_limit is not None:
            limit = bytes_of("with_options", "memory_limit", self.memory_limit)
            object.__setattr__(self, "memory_limit", limit)
        if self.deterministic is not None:
            check_bool(self, "deterministic")
        if self.workers is not None:
            check_int(self, "workers", -1, "workers must be 0 or more, or AUTOTUNE.")

    def length(self) -> int | None:
        return self.input.length()

    def cardinality(self) -> int:
        return self.input.cardinality()

    def spec(self, peek: Peek | None) -> Any:
        return self.input.spec(peek)

    def gather(self, indices: Indices, context: Context) -> Block:
        return self.context_for_input(context).gather(self.input, indices)

    def open(self, context: Context, state: State) -> Stream:
        return self.context_for_input(context).open(self.input, state)

    def open_span(self, context: Context, begin: int, end: int) -> Stream:
        return self.context_for_input(context).open(Span(self.input, begin, end))

    @cached_property
    def _budget(self) -> FileBudget:
        """One for all iterations."""
        assert self.max_open_files is not None
        return FileBudget(self.max_open_files)

    def context_for_input(self, context: Context) -> Context:
        if self.max_open_files is not None:
            context = replace(context, open_files=(*context.open_files, self._budget))
        if self.workers is not None:
            context = replace(context, workers=self.workers)
        if self.memory_limit is not None:
            assert isinstance(self.memory_limit, int)
            context = context.limited(self.input, self.memory_limit)
        return context

"""with_options: how the steps before are to be run. What they give stays the same."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from feedline.block import Block
from feedline.errors import UsageError
from feedline.graph import Context, Indices, Node, Peek, State, Stream, tree
from feedline.graph.arguments import check_bool, check_int

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_UNITS |= {f"{unit}I": 1024**power for power, unit in enumerate("KMGT", 1)}

_BLOCKS = 8  # that a step holds at a time


@dataclass(frozen=True, eq=False)
class Options(Node):
    """Of those that are None, nothing is said."""

    input: Node
    max_open_files: int | None = field(default=None, compare=False)
    memory_limit: int | str | None = field(default=None, compare=False)  # once it is made, in bytes
    deterministic: bool | None = None
    workers: int | None = field(default=None, compare=False)

    passes_rows_on = True

    def __post_init__(self) -> None:
        if self.max_open_files is not None:
            check_int(self, "max_open_files", 1, "one file at least must be open.")
        if self.memory_limit is not None:
            object.__setattr__(self, "memory_limit", _bytes_of(self.memory_limit))
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
        return context.gather(self.input, indices)

    def open(self, context: Context, state: State) -> Stream:
        if self.workers is not None:
            context = replace(context, workers=self.workers)
        if self.memory_limit is not None:
            context = self._limited(context)
        return context.open(self.input, state)

    def _limited(self, context: Context) -> Context:
        """Each step that works ahead has its part of the memory, and holds several blocks in it."""
        assert isinstance(self.memory_limit, int)
        memory = self.memory_limit // max(1, sum(node.works_ahead for node in tree(self.input)))
        block_bytes = max(1, min(context.block_bytes, memory // _BLOCKS))
        return replace(context, memory_limit=memory, block_bytes=block_bytes)


def _bytes_of(limit: Any) -> int:
    """
    >>> _bytes_of(4096), _bytes_of("1.5 GB"), _bytes_of("2GiB")
    (4096, 1500000000, 2147483648)
    """
    if isinstance(limit, int | np.integer) and not isinstance(limit, bool) and limit > 0:
        return int(limit)
    if isinstance(limit, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?I?)B?\s*", limit.upper())
        if found and found[2] in _UNITS and float(found[1]) > 0:
            return int(float(found[1]) * _UNITS[found[2]])
    raise UsageError(f'with_options(memory_limit={limit!r}): give a number of bytes, or a text like "4GB".')

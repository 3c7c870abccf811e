"""counter: numbers in steps, without an end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from feedline.block import Block
from feedline.graph import INFINITE, Context, Node, Peek, State, Stream
from feedline.graph.arguments import check_int
from feedline.spec import ArraySpec
from feedline.structure import flatten

_STRUCTURE = flatten(0)[1]
_INT64 = np.dtype(np.int64)


@dataclass(frozen=True, eq=False)
class Counter(Node):
    """As int64, which wrap around where they end."""

    start: int
    step: int

    def __post_init__(self) -> None:
        check_int(self, "start", -(2**63), "start must be 64 bits at most.")
        check_int(self, "step", -(2**63), "step must be 64 bits at most.")

    def cardinality(self) -> int:
        return INFINITE

    def spec(self, peek: Peek | None) -> Any:
        return ArraySpec((), _INT64)

    def open(self, context: Context, state: State) -> Stream:
        return _CounterStream(self, context, state)


class _CounterStream(Stream):
    def __init__(self, node: Counter, context: Context, state: State) -> None:
        self._node = node
        self._rows = context.block_rows
        self._at = state or 0

    def next(self, limit: int) -> Block | None:
        rows = min(limit, self._rows)
        numbers = np.arange(self._at, self._at + rows, dtype=np.int64)
        self._at += rows
        return Block._trusted(_STRUCTURE, [self._node.start + numbers * self._node.step], rows)

    def state(self) -> State:
        return self._at

"""enumerate: each element with its number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from feedline.block import Block
from feedline.graph import Context, Cursor, Indices, Node, Peek, State, Stream
from feedline.graph.arguments import check_int
from feedline.spec import ArraySpec
from feedline.structure import flatten


@dataclass(frozen=True, eq=False)
class Enumerate(Node):
    input: Node
    start: int

    def __post_init__(self) -> None:
        check_int(self, "start", -(2**63), "start must be a 64-bit int.")

    def length(self) -> int | None:
        return self.input.length()

    def cardinality(self) -> int:
        return self.input.cardinality()

    def spec(self, peek: Peek | None) -> Any:
        spec = self.input.spec(peek)
        return None if spec is None else (ArraySpec((), np.dtype(np.int64)), spec)

    def gather(self, indices: Indices, context: Context) -> Block:
        return self.numbered(indices, context.gather(self.input, indices))

    def numbered(self, indices: Indices, block: Block) -> Block:
        numbers = range(len(block.columns))
        structure = flatten((0, block.structure.unflatten(list(numbers))))[1]
        return Block._trusted(structure, [self.start + indices, *block.columns], block.rows)

    def open(self, context: Context, state: State) -> Stream:
        return _EnumerateStream(self, context, state)


class _EnumerateStream(Stream):
    def __init__(self, node: Enumerate, context: Context, state: State) -> None:
        self._node = node
        self._failed: int
        self._failed, rows = state or (0, None)
        self._rows = Cursor(context, node.input, rows)

    def next(self, limit: int) -> Block | None:
        first = self._rows.passed + self._failed
        try:
            block = self._rows.take(limit)
        except Exception:
            self._failed += 1  # an element that fails has its number, too
            raise
        return None if block is None else self._node.numbered(np.arange(first, first + block.rows), block)

    def state(self) -> State:
        return [self._failed, self._rows.state()]

    def close(self) -> None:
        self._rows.close()

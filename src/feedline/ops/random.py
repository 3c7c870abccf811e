"""random: random numbers without an end.

The numbers are those of Philox, which counts: the nth is had without the ones before it. So the state is n
and the key, because in another process another seed would be drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from feedline.block import Block
from feedline.graph import INFINITE, Context, Peek, RandomNode, State, Stream
from feedline.graph.arguments import check_bool
from feedline.spec import ArraySpec
from feedline.structure import flatten

_STRUCTURE = flatten(0)[1]
_AT_ONCE = 4  # numbers that Philox makes of each count


@dataclass(frozen=True, eq=False)
class Numbers(RandomNode):
    """Random numbers: other ones in each iteration, or always the same."""

    rerandomize_each_iteration: bool

    def __post_init__(self) -> None:
        check_bool(self, "rerandomize_each_iteration")
        super().__post_init__()


class Bits:
    """Numbers of 64 random bits, which go on from `state`."""

    def __init__(self, node: Numbers, context: Context, state: State) -> None:
        key, at = state or (node.key_in(context, each_iteration=node.rerandomize_each_iteration), 0)
        self._key: int = key
        self._at: int = at
        self._philox = np.random.Philox(key=self._key)
        self._philox.advance(self._at // _AT_ONCE)
        self._philox.random_raw(self._at % _AT_ONCE)

    def next(self, count: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
        self._at += count
        return self._philox.random_raw(count)

    def state(self) -> State:
        return [self._key, self._at]


@dataclass(frozen=True, eq=False)
class Random(Numbers):
    """Whole numbers from 0 to 2**32 - 1, as int64."""

    def cardinality(self) -> int:
        return INFINITE

    def spec(self, peek: Peek | None) -> Any:
        return ArraySpec((), np.dtype(np.int64))

    def open(self, context: Context, state: State) -> Stream:
        return _RandomStream(self, context, state)


class _RandomStream(Stream):
    def __init__(self, node: Random, context: Context, state: State) -> None:
        self._rows = context.block_rows
        self._bits = Bits(node, context, state)

    def next(self, limit: int) -> Block | None:
        rows = min(limit, self._rows)
        numbers = self._bits.next(rows) >> np.uint64(32)
        return Block._trusted(_STRUCTURE, [numbers.astype(np.int64)], rows)

    def state(self) -> State:
        return self._bits.state()

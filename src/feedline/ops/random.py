"""random: random numbers without an end.

The numbers are those of Philox, which counts: the nth is had without the ones before it. So the state is n
and the key, because in another process another seed would be drawn.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from feedline.block import Block
from feedline.graph import INFINITE, Context, Node, Peek, State, Stream
from feedline.graph.arguments import check_bool, check_int
from feedline.graph.seeds import key_of
from feedline.spec import ArraySpec
from feedline.structure import flatten

_STRUCTURE = flatten(0)[1]
_AT_ONCE = 4  # numbers that Philox makes of each count


@dataclass(frozen=True, eq=False)
class Chance(Node):
    """A step with random numbers: other ones in each iteration, or always the same."""

    seed: int | None
    rerandomize_each_iteration: bool
    drawn_seed: int = field(default_factory=lambda: secrets.randbits(63), kw_only=True, compare=False)

    def __post_init__(self) -> None:
        if self.seed is not None:
            check_int(self, "seed", -(2**63), "seed must be 64 bits at most.")
        check_bool(self, "rerandomize_each_iteration")

    def key(self, context: Context) -> int:
        return key_of(context.seed_of(self), context.epoch if self.rerandomize_each_iteration else ())


class Bits:
    """Numbers of 64 random bits, which go on from `state`."""

    def __init__(self, node: Chance, context: Context, state: State) -> None:
        key, at = state or (node.key(context), 0)
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
class Random(Chance):
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

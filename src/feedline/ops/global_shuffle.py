"""shuffle without a buffer: all elements of an indexed dataset in random order, in O(1) memory.

Nothing is stored of the order: it is computed for the elements that are asked for. So going on in the middle
of it, or reading it by index, costs no more than beginning.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field, replace
from typing import Any

from feedline.block import Block
from feedline.graph import Context, Indices, Node, Peek, State, Stream
from feedline.graph.arguments import check_bool, check_int
from feedline.graph.indexed import InOrder
from feedline.graph.permutation import Permutation
from feedline.graph.seeds import key_of


@dataclass(frozen=True, eq=False)
class GlobalShuffle(Node):
    """The input must be indexed."""

    input: Node
    seed: int | None
    reshuffle_each_iteration: bool
    drawn_seed: int = field(default_factory=lambda: secrets.randbits(63), compare=False)

    def __post_init__(self) -> None:
        if self.seed is not None:
            check_int(self, "seed", -(2**63), "seed must be 64 bits at most.")
        check_bool(self, "reshuffle_each_iteration")

    def length(self) -> int | None:
        return self.input.length()

    def cardinality(self) -> int:
        return self.input.cardinality()

    def spec(self, peek: Peek | None) -> Any:
        return self.input.spec(peek)

    def gather(self, indices: Indices, context: Context) -> Block:
        length = self.input.length()
        assert length is not None
        key = key_of(context.seed_of(self), context.epoch if self.reshuffle_each_iteration else ())
        return self.input.gather(Permutation(key, length).at(indices), context)

    def open(self, context: Context, state: State) -> Stream:
        # The seed too: in another process another one was drawn.
        seed, at = state or (context.seed_of(self), None)
        return _Seeded(replace(self, seed=seed), context, at)


class _Seeded(InOrder):
    """A stream whose state carries the seed."""

    _node: GlobalShuffle

    def state(self) -> State:
        return [self._node.seed, self._at]

"""shuffle without a buffer: all elements of an indexed dataset in random order, in O(1) memory.

Nothing is stored of the order: it is computed for the elements that are asked for. So going on in the middle
of it, or reading it by index, costs no more than beginning.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from feedline.block import Block
from feedline.graph import Context, Indices, Node, Peek, RandomNode, State, Stream
from feedline.graph.arguments import check_bool
from feedline.graph.indexed import InOrder
from feedline.graph.permutation import Permutation


@dataclass(frozen=True, eq=False)
class GlobalShuffle(RandomNode):
    """The input must be indexed."""

    input: Node
    reshuffle_each_iteration: bool

    is_portable = True

    def __post_init__(self) -> None:
        check_bool(self, "reshuffle_each_iteration")
        super().__post_init__()

    def length(self) -> int | None:
        return self.input.length()

    def cardinality(self) -> int:
        return self.input.cardinality()

    def spec(self, peek: Peek | None) -> Any:
        return self.input.spec(peek)

    def is_read_by_index(self) -> bool:
        return True

    def gather(self, indices: Indices, context: Context) -> Block:
        length = self.input.length()
        assert length is not None
        key = self.key_in(context, each_iteration=self.reshuffle_each_iteration)
        return context.gather(self.input, Permutation(key, length).at(indices))

    def open(self, context: Context, state: State) -> Stream:
        # The seed too: in another process another one was drawn.
        seed, at = state or (self.seed_in(context), None)
        return _Seeded(replace(self, seed=seed), context, at)


class _Seeded(InOrder):
    """A stream whose state carries the seed."""

    _node: GlobalShuffle

    def state(self) -> State:
        return [self._node.seed, self._at]

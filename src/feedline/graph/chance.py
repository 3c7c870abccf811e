"""Steps with random numbers, and the seeds they come from."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

from feedline.graph.arguments import check_int
from feedline.graph.context import Context
from feedline.graph.node import Node, tree
from feedline.graph.seeds import key_of


@dataclass(frozen=True, eq=False)
class RandomNode(Node):
    """A step with random numbers. Without a seed of the user's it draws one for itself."""

    seed: int | None = field(kw_only=True)
    drawn_seed: int = field(default_factory=lambda: secrets.randbits(63), kw_only=True, compare=False)

    def __post_init__(self) -> None:
        if self.seed is not None:
            check_int(self, "seed", -(2**63), "seed must be 64 bits at most.")

    def seed_in(self, context: Context) -> int:
        return context.seeds.get(self, self.drawn_seed) if self.seed is None else self.seed

    def key_in(self, context: Context, *, each_iteration: bool) -> int:
        """What the random numbers follow from: another one in each iteration, or always the same."""
        return key_of(self.seed_in(context), context.epoch if each_iteration else ())


def random_nodes(root: Node) -> list[RandomNode]:
    """Those among the node and all before it."""
    return [node for node in tree(root) if isinstance(node, RandomNode)]

"""Steps with random numbers, and the seeds they come from."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from feedline.graph.arguments import check_int
from feedline.graph.context import Context
from feedline.graph.node import Node, tree
from feedline.graph.seeds import key_of


@dataclass(frozen=True, eq=False)
class DrawingNode(Node):
    """A step that draws a seed for itself, for its random numbers or those of the datasets that it makes."""

    drawn_seed: int = field(default_factory=lambda: secrets.randbits(63), kw_only=True, compare=False)

    @property
    def has_drawn(self) -> bool:
        """Is the seed its own? Then it has another one in another process."""
        return True

    def seed_in(self, context: Context) -> int:
        return context.seeds.get(self, self.drawn_seed)


@dataclass(frozen=True, eq=False)
class RandomNode(DrawingNode):
    """A step with random numbers, for which the user may give the seed."""

    seed: int | None = field(kw_only=True)

    def __post_init__(self) -> None:
        if self.seed is not None:
            check_int(self, "seed", -(2**63), "seed must be 64 bits at most.")

    @property
    def has_drawn(self) -> bool:
        return self.seed is None

    def seed_in(self, context: Context) -> int:
        return super().seed_in(context) if self.seed is None else self.seed

    def key_in(self, context: Context, *, each_iteration: bool) -> int:
        """What the random numbers follow from: another one in each iteration, or always the same."""
        return key_of(self.seed_in(context), context.epoch if each_iteration else ())


def random_nodes(root: Node) -> list[DrawingNode]:
    """Those with a seed, among the node and all before it."""
    return [node for node in tree(root) if isinstance(node, DrawingNode)]


def drawing_nodes(root: Node) -> list[DrawingNode]:
    """Those that drew the seed."""
    return [node for node in random_nodes(root) if node.has_drawn]


def seeded(context: Context, root: Node, seeds: Iterable[int]) -> Context:
    """The context of an iteration in which the steps have these seeds, which others drew."""
    drawn: dict[Node, int] = dict(zip(drawing_nodes(root), seeds, strict=True))
    return replace(context, seeds={**context.seeds, **drawn}) if drawn else context


def for_made(context: Context, made: Node, seed: int, number: int) -> Context:
    """The context of the `number`th dataset that a step makes whose seed this is.

    It is made again, and draws again, when a state is restored: so what counts is the seed of the step.
    """
    seeds: dict[Node, int] = {node: key_of(seed, (at,)) >> 1 for at, node in enumerate(drawing_nodes(made))}
    within = context.within(number)
    return replace(within, seeds={**within.seeds, **seeds}) if seeds else within

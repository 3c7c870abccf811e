"""A dataset that a function makes of an element, made and run in a worker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from feedline.errors import WrongKind
from feedline.graph import UNKNOWN, Context, Node, Peek, State, Stream
from feedline.graph.calls import blame
from feedline.graph.chance import for_made
from feedline.ops.from_generator import Shards


def made_by(maker: Callable[..., Any], element: Any, number: int, step: Node) -> Node:
    """The node of the dataset that a step's function makes of an element, the `number`th of its input."""
    try:
        made = maker(*element) if type(element) is tuple else maker(element)
        node = getattr(made, "_node", None)
        if not isinstance(node, Node):
            raise WrongKind(
                f"{step.name}: the function must return a feedline Dataset, not {type(made).__name__}."
            )
    except Exception as error:
        blame(error, step, number)
        raise
    return node


@dataclass(frozen=True, eq=False)
class Elsewhere(Node):
    maker: Callable[..., Any]  # of an element, gives a Dataset
    element: Any
    number: int  # of the element
    seed: int  # of the step
    workers: int | None  # among which one is chosen, if the step was asked for them

    @property
    def function(self) -> Callable[..., Any]:
        """The user's: the maker, or what one of ours calls."""
        return self.maker.function if isinstance(self.maker, Shards) else self.maker

    def made(self) -> Node:
        return made_by(self.maker, self.element, self.number, self)

    def cardinality(self) -> int:
        return UNKNOWN

    def spec(self, peek: Peek | None) -> Any:
        return peek(self) if peek else None

    def open(self, context: Context, state: State) -> Stream:
        places = context.places(self.workers)
        if places is None:
            made = self.made()
            return for_made(context, made, self.seed, self.number).open(made, state)
        own = replace(context, seeds={})  # with the seeds, the steps around it would be sent
        return context.services.remote(self, own, state, places)

"""The Context: all that a stream may know of what surrounds it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from feedline.graph.node import Node
from feedline.graph.stream import State, Stream


class Services(Protocol):
    """What `run` does for streams, so that ops need no threads and no clocks of their own."""

    def measured(self, node: Node, stream: Stream) -> Stream:
        """The stream, with its rows and times counted."""
        ...

    def background(
        self, start: Callable[[State], Stream], state: State, rows: int, nbytes: int | None = None
    ) -> Stream:
        """The stream that `start` opens at `state`, run by a thread about `rows` rows ahead."""
        ...

    @property
    def cores(self) -> int:
        """How many threads may work at once."""
        ...

    def deadline(self) -> Callable[[], bool]:
        """Tells when a block that users' functions fill should be handed on as it is."""
        ...


FIRST_EPOCH = (0,)


@dataclass(frozen=True)
class Context:
    services: Services
    epoch: tuple[int, ...] = FIRST_EPOCH  # which iteration this is; one number more inside of each repeat
    block_rows: int = 4096
    block_bytes: int = 4 << 20  # what is copied into blocks is cut at about so many
    siblings: int = 1  # streams like this one that are at work at the same time
    seeds: Mapping[Node, int] = field(default_factory=dict)  # drawn when the iteration began, elsewhere

    def open(self, node: Node, state: State = None) -> Stream:
        return self.services.measured(node, node.open(self, state))

    def at_epoch(self, epoch: tuple[int, ...]) -> Context:
        return replace(self, epoch=epoch)

    def seed_of(self, node: Any) -> int:
        """The seed of a random node: the user's, or the one that was drawn."""
        return int(self.seeds.get(node, node.drawn_seed) if node.seed is None else node.seed)

    def within(self, number: int) -> Context:
        """The context of the `number`th iteration inside of this one."""
        return self.at_epoch((*self.epoch, number))

    def rows_of(self, row_bytes: int) -> int:
        """How many rows of that size go into a block."""
        return max(1, min(self.block_rows, self.block_bytes // max(1, row_bytes)))

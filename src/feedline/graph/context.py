"""The Context: all that a stream may know of what surrounds it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from feedline.block import Block
from feedline.graph.consumption import Consumption
from feedline.graph.job import Doing, Job, Opener
from feedline.graph.node import Node, goes_by_number
from feedline.graph.stream import Indices, State, Stream

if TYPE_CHECKING:
    from feedline.graph.cursor import Cursor


class Services(Protocol):
    """What `run` does for streams, so that ops need no threads and no clocks of their own."""

    def measured(self, node: Node, stream: Stream) -> Stream:
        """The stream, with its rows and times counted."""
        ...

    def gathered(self, node: Node, indices: Indices, context: Context) -> Block:
        """What `node.gather` gives, with its rows and times counted."""
        ...

    def background(
        self, start: Callable[[State], Stream], state: State, context: Context, rows: int | None
    ) -> Stream:
        """The stream that `start` opens at `state`, run by a thread about `rows` rows ahead.

        None: as far as is needed for nobody to wait, and not before it pays.
        """
        ...

    def parallel(self, job: Job, rows: Cursor, context: Context, calls: int, executor: str | None) -> Doing:
        """The job for the rows of the cursor, in `calls` places at once; AUTOTUNE: in as many as is best.

        They are processes, or threads with `executor="thread"`.
        """
        ...

    def remote(self, opener: Opener, context: Context, state: State, workers: int) -> Stream:
        """The stream that it opens, run by one of `workers` processes, and read ahead.

        That it cannot be opened is raised when it is read, as NotOpened.
        """
        ...

    def peek(self, node: Node, context: Context) -> Any:
        """The spec of what the node gives there, found by looking at its first elements."""
        ...

    @property
    def consumption(self) -> Consumption | None:
        """How far the iteration was consumed; None where that cannot be known, as in a worker."""
        ...

    @property
    def looks_only(self) -> bool:
        """Are elements only looked at, to tell their spec?"""
        ...

    @property
    def cores(self) -> int:
        """How many threads may work at once."""
        ...

    def clock(self) -> float:
        """Seconds, from any beginning."""
        ...

    def deadline(self) -> Callable[[], bool]:
        """Tells when a block that users' functions fill should be handed on as it is."""
        ...


FIRST_EPOCH = (0,)

_MEMORY = 256 << 20
_PICKED = 8  # blocks' worth of bytes that a block of picked rows may hold


@dataclass(frozen=True)
class Context:
    services: Services
    epoch: tuple[int, ...] = FIRST_EPOCH  # which iteration this is; one number more inside of each repeat
    block_rows: int = 16384
    block_bytes: int = 4 << 20  # what is copied into blocks is cut at about so many
    memory_limit: int | None = None  # bytes that a step which works ahead may hold, if the user said so
    siblings: int = 1  # streams like this one that are at work at the same time
    rows_are_picked: bool = False  # out of the blocks, by the next step, instead of being looked at in order
    blocks_are_copied: bool = False  # by who asked, before the next is asked for
    rows_by_number: bool = False  # blocks may tell the numbers of rows instead, where they can be gathered
    must_repeat: bool = False  # is a source an error that gives other elements than when its state was taken?
    workers: int | None = None  # places at once for users' functions, at most; None: as their steps say
    seeds: Mapping[Node, int] = field(default_factory=dict)  # drawn when the iteration began, elsewhere
    # How to open a span of a node that is only streamed, from the number of one row to that of another.
    span_openers: Mapping[Node, Callable[[int, int], Stream]] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        """Without the services: what they are is told by where it is unpickled, with `served_by`."""
        return {**vars(self), "services": None, "span_openers": {}}

    def served_by(self, services: Services) -> Context:
        return replace(self, services=services)

    def peek(self, node: Node) -> Any:
        """For `Node.spec`."""
        return self.services.peek(node, self)

    def open(self, node: Node, state: State = None) -> Stream:
        context = self
        if self.rows_are_picked and not node.passes_rows_on:
            context = replace(context, rows_are_picked=False)
        if self.blocks_are_copied and not node.lends_rows:
            context = replace(context, blocks_are_copied=False)
        if self.rows_by_number and not goes_by_number(node):
            context = replace(context, rows_by_number=False)
        return self.services.measured(node, node.open(context, state))

    def gather(self, node: Node, indices: Indices) -> Block:
        """The elements of an indexed node at these indices."""
        return self.services.gathered(node, indices, self)

    def at_epoch(self, epoch: tuple[int, ...]) -> Context:
        return replace(self, epoch=epoch)

    def places(self, asked: int | None) -> int | None:
        """In how many places at once a step should work that was asked for so many; None: in one, here."""
        if self.workers == 0:
            return None
        return self.workers if asked is None else asked

    def within(self, number: int) -> Context:
        """The context of the `number`th iteration inside of this one."""
        return self.at_epoch((*self.epoch, number))

    @property
    def memory(self) -> int:
        """Bytes that a step may hold which decides by itself how far it works ahead."""
        return _MEMORY if self.memory_limit is None else self.memory_limit

    def rows_of(self, row_bytes: int) -> int:
        """How many rows of that size go into a block."""
        return max(1, min(self.block_rows, self.block_bytes // max(1, row_bytes)))

    def rows_to_pick(self, row_bytes: int) -> int:
        """The same of rows that are only picked yet: more, but what they are picked out of is held."""
        return max(1, min(self.block_rows, _PICKED * self.block_bytes // max(1, row_bytes)))

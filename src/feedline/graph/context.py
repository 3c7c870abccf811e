"""The Context: all that a stream may know of what surrounds it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from feedline.block import Block
from feedline.graph.consumption import Consumption
from feedline.graph.job import Doing, Job, Opener
from feedline.graph.memory import Budget
from feedline.graph.node import Node, Wholes, goes_by_number, tree
from feedline.graph.stream import Indices, State, Stream

if TYPE_CHECKING:
    from feedline.graph.cursor import Cursor


class Services(Protocol):
    """What `run` does for streams, so that ops need no threads and no clocks of their own."""

    def measured(self, node: Node, stream: Stream, context: Context) -> Stream:
        """The stream, with its rows, times and memory counted."""
        ...

    def read_whole(self, node: Node, wait: Callable[[], Wholes]) -> Wholes:
        """What `node.begin_whole` makes, with its rows and times counted."""
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

_PICKED = 8  # blocks' worth of bytes that a block of picked rows may hold
_FOR_BLOCKS = 4  # what part of a limit is for the blocks on their way from step to step: a quarter
_OF_MADE = 17  # blocks that count for a step which has many datasets open at a time
_SMALLEST_ROW = 8  # bytes


@dataclass(frozen=True)
class Context:
    services: Services
    epoch: tuple[int, ...] = FIRST_EPOCH  # which iteration this is; one number more inside of each repeat
    block_rows: int = 16384
    block_bytes: int = 4 << 20  # what is copied into blocks is cut at about so many
    budget: Budget = field(default_factory=Budget)  # of the memory that the streams hold
    siblings: int = 1  # streams like this one that are at work at the same time
    rows_are_picked: bool = False  # out of the blocks, by the next step, instead of being looked at in order
    blocks_are_copied: bool = False  # by who asked, before the next is asked for
    rows_by_number: bool = False  # blocks may tell the numbers of rows instead, where they can be gathered
    must_repeat: bool = False  # is a source an error that gives other elements than when its state was taken?
    workers: int | None = None  # places at once for users' functions, at most; None: as their steps say
    open_files: tuple[Any, ...] = ()  # the FileBudgets that files count against, beside the process's
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
        return self.services.measured(node, node.open(context, state), context)

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

    def limited(self, node: Node, limit: int | Budget) -> Context:
        """The context in which the steps up to `node` keep to a limit in bytes, or to a shared budget.

        Blocks are as small as it takes for one of each step to fit into a part of the limit.
        """
        budget = limit if isinstance(limit, Budget) else Budget(limit, self.budget)
        assert budget.limit is not None
        budget.last_step = node
        blocks = sum(_OF_MADE if one.makes_datasets else 1 for one in tree(node))
        block_bytes = max(1, min(self.block_bytes, budget.limit // (_FOR_BLOCKS * blocks)))
        block_rows = max(1, min(self.block_rows, block_bytes // _SMALLEST_ROW))
        return replace(self, budget=budget, block_bytes=block_bytes, block_rows=block_rows)

    def rows_of(self, row_bytes: int) -> int:
        """How many rows of that size go into a block."""
        return max(1, min(self.block_rows, self.block_bytes // max(1, row_bytes)))

    def rows_to_pick(self, row_bytes: int) -> int:
        """The same of rows that are only picked yet: more, but what they are picked out of is held."""
        if self.budget.is_limited:
            return self.rows_of(row_bytes)
        return max(1, min(self.block_rows, _PICKED * self.block_bytes // max(1, row_bytes)))

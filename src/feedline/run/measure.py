"""How many rows a step gave, how long it took, and what it held, as a stream or by index."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from feedline.block import Block
from feedline.graph import Context, Node, State, Stream
from feedline.graph.calls import no_end

Given = TypeVar("Given", bound=Block | None)


@dataclass
class Measure:
    """Of one step in one iteration. Times are in seconds, and without those of the steps before it.

    A step of the datasets that a function made, of interleave say, has one for all of them.
    """

    nodes: list[Node]  # the first few: a node may hold much memory
    opened: int = 0
    elements: int = 0
    blocks: int = 0
    bytes: int = 0
    busy: float = 0.0
    waiting: float = 0.0  # for other threads and processes
    workers: int = 0  # the most at the same time
    deaths: int = 0  # of workers
    ahead: int = 0  # bytes, the most that were held before anyone asked for them
    held: int = 0  # bytes, at present
    most_held: int = 0

    def added_to(self, other: Measure) -> Measure:
        """The sum with an earlier iteration of the same step; of what is a most, the larger stays."""
        return Measure(
            self.nodes,
            self.opened + other.opened,
            self.elements + other.elements,
            self.blocks + other.blocks,
            self.bytes + other.bytes,
            self.busy + other.busy,
            self.waiting + other.waiting,
            max(self.workers, other.workers),
            self.deaths + other.deaths,
            max(self.ahead, other.ahead),
            self.held + other.held,
            max(self.most_held, other.most_held),
        )

    def count(self, give: Callable[[], Given], waited: Callable[[], float] = lambda: 0.0) -> Given:
        """What `give` gives, counted. `waited` tells how long it has waited so far."""
        before, waited_before = _inner.spent, waited()
        _inner.spent = 0.0
        start = time.perf_counter()
        try:
            block = give()
        finally:
            spent = time.perf_counter() - start
            waiting = waited() - waited_before
            self.busy += spent - _inner.spent - waiting
            self.waiting += waiting
            _inner.spent = before + spent
        if block is not None:
            self.elements += block.rows
            self.blocks += 1
            self.bytes += block.nbytes
        return block


class _Inner(threading.local):
    spent = 0.0  # by the steps that the running one called


_inner = _Inner()


class Measured(Stream):
    def __init__(self, stream: Stream, measure: Measure) -> None:
        self._stream = stream
        self._measure = measure
        self._deaths = 0  # that were counted
        if stream.account is not None:
            stream.account.measure = measure

    def next(self, limit: int) -> Block | None:
        try:
            return self._measure.count(lambda: self._stream.next(limit), lambda: self._stream.waited)
        except StopIteration as error:
            raise no_end(error) from error
        finally:
            self._measure.ahead = max(self._measure.ahead, self._stream.ahead)
            if self._stream.workers:
                self._measure.workers = max(self._measure.workers, self._stream.workers)
                self._measure.deaths += self._stream.deaths - self._deaths
                self._deaths = self._stream.deaths

    def state(self) -> State:
        return self._stream.state()

    def close(self) -> None:
        self._stream.close()
        if self._stream.account is not None:
            self._stream.account.close()


_FIRST_ROWS = 1  # as long as nobody knows how large they are
_GROWTH = 8  # times the rows of the last block, at most


class MeasuredWithin(Measured):
    """The same under a memory limit: no more rows are asked of a step than fit into a block.

    The block that a step gave last counts as its memory, until the next one is asked for.
    """

    def __init__(self, stream: Stream, measure: Measure, node: Node, context: Context) -> None:
        super().__init__(stream, measure)
        self._account = context.budget.account(node, reserve=context.block_bytes)
        self._account.measure = measure
        # Rows that are passed on as they are count as memory of the step before.
        self._passes_rows_on = node.passes_rows_on and bool(node.inputs)
        self._context = context
        self._node = node
        self._rows = _FIRST_ROWS

    def next(self, limit: int) -> Block | None:
        self._account.hold(0)
        block = super().next(min(limit, self._rows))
        if self._context.budget.last_step is self._node:
            self._context.budget.is_settled = True
        if block is None:
            self._account.close()
        elif block.is_picked or not self._passes_rows_on:
            size = block.nbytes
            element = size // block.rows
            self._rows = min(_GROWTH * self._rows, self._context.rows_of(element))
            self._account.hold(size, element)
        return block

    def close(self) -> None:
        super().close()
        self._account.close()

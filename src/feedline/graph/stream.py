"""A Stream: one step at work. It gives blocks of rows, and says how to go on from after the last one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, TypeAlias

from feedline.block import Block
from feedline.block import Indices as Indices
from feedline.graph.memory import Account

State: TypeAlias = Any
"""What JSON can hold; None is the beginning."""


class Stream(ABC):
    """Rows, a block at a time.

    The elements and their order never depend on the `limit`s that are asked for, nor on when: only how many
    rows come at once does. Whoever opened a stream closes it.
    """

    waited = 0.0  # seconds that `next` spent waiting for other threads and processes
    workers = 0  # threads or processes that work for it
    ahead = 0  # bytes, the most that were held before anyone asked for them
    deaths = 0  # of such processes, so far
    account: Account | None = None  # of what it holds beside the block that it gave last

    @abstractmethod
    def next(self, limit: int) -> Block | None:
        """About `limit` rows and at least one; None at the end, then and ever after.

        What costs work of its own is done for `limit` elements at most. A block that is there anyway is given
        whole: a Cursor cuts it.

        An element that fails is raised after the rows in front of it were given, and counts as passed: asked
        again, the stream goes on after it.
        """

    @abstractmethod
    def state(self) -> State:
        """Where the stream stands: opened with it, the same node gives the rows that would come next.

        It must not change afterwards: it is kept while the stream goes on.
        """

    def close(self) -> None:  # noqa: B027  (most streams hold nothing)
        """Give back what is held. May be called twice, and in the middle."""

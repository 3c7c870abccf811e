"""A stream that a thread runs ahead once that is worth it.

Where the consumer does next to nothing between two blocks, there is nothing to be done meanwhile: the thread
would only take turns with it at Python's lock. So the stream is read by its consumer, until the time that
passes between two reads is a part that is worth saving.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from feedline.block import Block
from feedline.graph import Context, State, Stream
from feedline.graph.memory import Account
from feedline.run.background import Background

_ENOUGH = 0.02  # seconds, after which it is decided, again and again
_WORTH = 0.1  # of the time


class IfItPays(Stream):
    def __init__(self, start: Callable[[State], Stream], state: State, context: Context) -> None:
        self._context = context
        self.account: Account = context.budget.account("prefetch")
        self._stream = start(state)
        self._is_ahead = False  # does a thread run it?
        self._inside = 0.0  # seconds that its own work took
        self._outside = 0.0  # those between two reads
        self._left: float | None = None  # when the last read ended

    def next(self, limit: int) -> Block | None:
        if not self._is_ahead:
            return self._next_here(limit)
        try:
            return self._stream.next(limit)
        finally:
            self.waited, self.ahead = self._stream.waited, self._stream.ahead

    def _next_here(self, limit: int) -> Block | None:
        began = time.perf_counter()
        if self._left is not None:
            self._outside += began - self._left
        if self._inside + self._outside > _ENOUGH:
            if self._outside > _WORTH * (self._inside + self._outside):
                stream = self._stream
                self._stream = Background(lambda _: stream, stream.state(), self._context, None, self.account)
                self._is_ahead = True
                return self.next(limit)
            self._inside = self._outside = 0.0
        try:
            return self._stream.next(limit)
        finally:
            self._left = time.perf_counter()
            self._inside += self._left - began

    def state(self) -> State:
        return self._stream.state()

    def close(self) -> None:
        self._stream.close()

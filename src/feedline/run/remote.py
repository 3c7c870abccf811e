"""A stream that runs in a worker. The next of its blocks are asked for before they are needed.

Each block comes with the state after it: when the worker dies, another goes on from there.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from feedline.block import Block
from feedline.errors import WorkerDied
from feedline.graph import Context, State, Stream
from feedline.graph.job import NotOpened, Opener
from feedline.graph.memory import Account
from feedline.run.processes import Crew
from feedline.run.worker_process import ReadTask, SentJob, WorkerLeft

_AHEAD = 2  # blocks: the one that is being made, and the one that is taken
_DEATHS = 3  # of workers, without a block in between, after which it is given up


@dataclass(frozen=True)
class Opening:
    """All that a worker needs to know of a stream."""

    opener: Opener
    context: Context
    state: State

    @property
    def step(self) -> str:
        return str(self.opener)

    @property
    def function(self) -> Callable[..., Any]:
        return self.opener.function

    def open(self) -> Stream:
        return self.opener.open(self.context, self.state)


class RemoteStream(Stream):
    def __init__(self, crew: Crew, workers: int, opener: Opener, context: Context, state: State) -> None:
        self._crew = crew
        self._workers = workers
        self._opener = opener
        self._context = replace(context, workers=0, blocks_are_copied=True)
        self._state = state
        self._deaths = 0  # since the last block
        self._given = 0  # elements
        self._ended = False
        self._job: SentJob | None = None
        self._asked: deque[ReadTask] = deque()
        self.account: Account = context.budget.account(opener)
        crew.enter(workers)
        self._is_open = True
        self._ask(context.block_rows)

    def next(self, limit: int) -> Block | None:
        began = time.perf_counter()
        try:
            return self._next(min(limit, self._context.block_rows))
        finally:
            self.waited += time.perf_counter() - began
            self.workers = min(self._workers, self._crew.size)

    def _next(self, limit: int) -> Block | None:
        while not self._ended:
            self._ask(limit)
            asked = self._asked.popleft()
            try:
                block, error = asked.wait()
            except WorkerLeft:
                self._end()
                continue
            except WorkerDied as died:
                self._deaths += 1
                self.deaths += 1
                self._end()
                if self._deaths == _DEATHS:
                    self._deaths = 0
                    died.add_note(f"  at element {self._given:,} of those that this stream gave")
                    raise
                continue
            self._deaths = 0
            if not asked.opened:
                assert error is not None
                self._ended = True
                self._end()
                raise NotOpened(error) from error
            self._state = asked.after
            if error is not None:
                raise error
            if block is not None:
                self._given += block.rows
                self.account.hold(_AHEAD * block.nbytes)
                return block
            self._ended = True
            self._end()
        return None

    def _ask(self, limit: int) -> None:
        if self._job is None:
            self._job = SentJob(Opening(self._opener, self._context, self._state))
        while len(self._asked) < _AHEAD:
            # After a death, one by one: so those in front of what it died of are had.
            task = ReadTask(self._crew, self._job, 1 if self._deaths else limit)
            self._crew.send(task, self._workers)
            self._asked.append(task)

    def _end(self) -> None:
        """What was asked for is not wanted any more."""
        self._asked.clear()
        if self._job is not None:
            job, self._job = self._job, None
            self._crew.forget(job)

    def state(self) -> State:
        return self._state

    def close(self) -> None:
        self._ended = True
        if self._is_open:
            self._is_open = False
            self._end()
            self._crew.leave()

    def __del__(self) -> None:
        if hasattr(self, "_is_open") and not sys.is_finalizing():
            self.close()

"""A job done by whoever waits for it: for functions that are too quick to be worth sending rows to others."""

from __future__ import annotations

import time

from feedline.block import Block
from feedline.graph.job import Job, Outcome
from feedline.run.clock import SECONDS, deadline


class Here:
    size = 0

    def __init__(self, job: Job) -> None:
        self._job = job

    def send(self, rows: Block, first: int) -> _Ticket:
        return _Ticket(self._job, rows, first)

    def close(self, wait: bool = True) -> None:
        pass


class _Ticket:
    def __init__(self, job: Job, rows: Block, first: int) -> None:
        self._job, self._rows, self._first = job, rows, first
        self.seconds = 0.0

    @property
    def is_over(self) -> bool:
        return False

    def wait(self) -> Outcome:
        began = time.perf_counter()
        results, error = self._job.run(self._rows, self._first, deadline(SECONDS))
        outcome = Outcome(results.block() if len(results) else None, error)
        self.seconds = time.perf_counter() - began
        return outcome

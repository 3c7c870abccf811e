"""A job done by threads of this process: for functions that let other threads run meanwhile."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor

from feedline.block import Block
from feedline.graph.job import Job, Outcome
from feedline.run.clock import MOST_SECONDS, deadline


class ThreadTeam:
    def __init__(self, job: Job, size: int) -> None:
        self.size = size
        self._job = job
        self._threads = ThreadPoolExecutor(size, "feedline-map")
        self._own: set[int] = set()  # the threads' numbers

    def send(self, rows: Block, first: int) -> _Ticket:
        _ = rows.columns  # rows that were only picked are copied by the one who reads, not by several at once
        return _Ticket(self._threads.submit(self._run, rows, first))

    def _run(self, rows: Block, first: int) -> tuple[Outcome, float]:
        self._own.add(threading.get_ident())
        began = time.perf_counter()
        results, error = self._job.run(rows, first, deadline(MOST_SECONDS))
        outcome = Outcome(results.block() if len(results) else None, error)
        return outcome, time.perf_counter() - began

    def close(self, wait: bool = True) -> None:
        # One of the threads may be the one that finds that nobody reads on.
        is_own = threading.get_ident() in self._own
        self._threads.shutdown(wait and not is_own, cancel_futures=True)


class _Ticket:
    def __init__(self, future: Future[tuple[Outcome, float]]) -> None:
        self._future = future

    @property
    def seconds(self) -> float:
        return self._future.result()[1]

    @property
    def is_over(self) -> bool:
        return self._future.done()

    def wait(self) -> Outcome:
        return self._future.result()[0]

"""The worker processes of this process: one limit for all iterations, and an end for those without work.

Workers wait here between iterations. A thread ends those that have waited for a few seconds, and those that
an open iterator has not used for as long; it exists only while there are workers.

Nothing here takes a lock to change the pool: garbage is collected in any thread and at any moment, so a
finalizer that gives workers back could wait for a lock that its own thread holds.
"""

from __future__ import annotations

import _thread
import atexit
import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import Protocol
from weakref import WeakValueDictionary

from feedline.records import open_files
from feedline.run.cores import usable_cores
from feedline.run.worker_process import SentJob, Worker

IDLE = 3.0
"""Seconds without a task after which a worker is ended."""

_LOOK = 0.5  # seconds from one look at the workers to the next
_PAUSE = 0.5  # seconds without a use, after which an iteration lends its workers to others
_ENDING = 1.0  # seconds that the end of the program waits for the thread


class Holder(Protocol):
    """An iteration that has workers."""

    wanted: int  # workers, by the step that asked for most

    @property
    def size(self) -> int:
        """Workers that it has."""
        ...

    @property
    def patience(self) -> float:
        """Seconds without a use after which its workers are ended."""
        ...

    def give_back(self, pause: float, most: int | None = None) -> list[Worker]:
        """Workers without a task, if nobody has used this iteration for `pause` seconds."""
        ...


_most: int | None = None  # workers, if this process may have no more
_idle: deque[tuple[float, Worker]] = deque()  # since when they wait; the oldest first
_all: WeakValueDictionary[int, Worker] = WeakValueDictionary()  # by pid
_holders: WeakValueDictionary[int, Holder] = WeakValueDictionary()
_starting: deque[None] = deque()  # one for each thread that is about to start a worker
_keys: deque[None] = deque([None])  # the thread that looks after workers has it
_looking = threading.Lock()  # held while it does
_stop = threading.Event()  # it should
_stopped = threading.Event()  # it has


def limit_workers(most: int) -> None:
    """Set the limit for this process. Every iteration gets one worker all the same."""
    global _most
    _most = most


def know(holder: Holder) -> None:
    """Count it in for the limit, and end its workers when it does not use them."""
    _holders[id(holder)] = holder


def hire(job: SentJob, holder: Holder) -> Worker | None:
    """A worker for the job. None when there are enough, and the holder has one already."""
    if (worker := _first_fit(job, _waiting())) is not None:
        return worker
    _starting.append(None)  # before counting: two threads must not take the same place
    try:
        if _count() + len(_starting) <= _limit(holder):
            return _start(holder)
        if (worker := _lent_by_others(job, holder)) is not None:
            return worker
        # One is due to everybody: who waited for another iteration to end could wait forever.
        return None if holder.size else _start(holder)
    finally:
        _starting.pop()


def put_back(workers: list[Worker]) -> None:
    """They wait for the next iteration. For finalizers, too."""
    now = time.monotonic()
    _idle.extend((now, worker) for worker in workers)


def are_idle() -> bool:
    """Are there workers that nobody needs to wait for?"""
    return bool(_idle)


@atexit.register
def end_idle() -> None:
    """End all that wait."""
    _end_waiting(since=float("inf"))


def _limit(holder: Holder) -> int:
    """Two for each core, or as many as one iteration was told to use, within what this process may have."""
    others = (other for other in _known_holders() if other.size)
    wanted = max(2 * usable_cores(), holder.wanted, *(other.wanted for other in others))
    return wanted if _most is None else min(wanted, _most)


def _count() -> int:
    return len(_running())


def _running() -> list[Worker]:
    workers = (known() for known in _all.valuerefs())
    return [worker for worker in workers if worker is not None and worker.is_running]


def _known_holders() -> list[Holder]:
    # A copy: other threads add to it meanwhile.
    return [holder for known in _holders.valuerefs() if (holder := known()) is not None]


def _start(holder: Holder) -> Worker:
    worker = Worker(open_files.share_of_worker(_limit(holder)))
    _all[worker.pid] = worker
    _lend_files()
    _ensure_looked_after()
    return worker


def _lend_files() -> None:
    open_files.lend(worker.open_files for worker in _running())


def _waiting() -> Iterator[Worker]:
    """Those that wait, the last one first: it is the most likely to have what it needs in its caches."""
    while _idle:
        with suppress(IndexError):  # another thread has taken the last one
            yield _idle.pop()[1]


def _lent_by_others(job: SentJob, holder: Holder) -> Worker | None:
    # To have one at all is worth interrupting others for, to have more is not.
    pause = _PAUSE if holder.size else 0.0
    others = (other for other in _known_holders() if other is not holder)
    return _first_fit(job, (worker for other in others for worker in other.give_back(pause, most=1)))


def _first_fit(job: SentJob, workers: Iterator[Worker]) -> Worker | None:
    for worker in workers:
        try:
            if not worker.knows_other(job) and worker.becomes_free():
                return worker
        except BaseException:
            worker.close()
            raise
        worker.close()
    return None


def _end_waiting(since: float) -> None:
    """End those that have waited since then, or longer."""
    with suppress(IndexError):  # there is none, or another thread has taken the last one
        while (oldest := _idle[0])[0] <= since:
            if (taken := _idle.popleft()) is not oldest:
                _idle.appendleft(taken)  # another thread has taken the oldest
                return
            taken[1].close()


def _ensure_looked_after() -> None:
    if not _took_key():
        return  # it is running
    _stopped.clear()
    try:
        # Not a threading.Thread, whose start waits for the thread: a finalizer could run there that needs a
        # lock of this one's.
        _thread.start_new_thread(_look_after, ())
    except RuntimeError:  # there are too many threads: the next worker tries again
        _keys.append(None)


def _look_after() -> None:
    """The thread: until there are no workers."""
    while not _stop.wait(_LOOK):
        with _looking:
            is_needed = _look()
        if not is_needed:
            _keys.append(None)
            # One that was started before that could not start another thread.
            if not _count() or not _took_key():
                break
    _stopped.set()


def _took_key() -> bool:
    try:
        _keys.pop()
    except IndexError:
        return False
    return True


def _look() -> bool:
    """End workers without work. Is there any left?"""
    _end_waiting(since=time.monotonic() - IDLE)
    for holder in _known_holders():
        for worker in holder.give_back(holder.patience):
            worker.close()
    _lend_files()
    return _count() > 0


@atexit.register
def _stop_looking() -> None:
    """A thread that is there when the interpreter goes would keep alive all that it can reach."""
    _stop.set()
    if not _keys:
        _stopped.wait(_ENDING)


def _leave_to_parent() -> None:
    """In a forked child. With its copies of their sockets, workers would not notice the parent's end."""
    global _looking, _stop, _stopped
    for known in _all.valuerefs():
        if (worker := known()) is not None:
            worker.channel.close()
    _all.clear()
    _lend_files()
    _holders.clear()
    _idle.clear()
    _starting.clear()
    _keys.clear()
    _keys.append(None)
    _looking, _stop, _stopped = threading.Lock(), threading.Event(), threading.Event()


# No fork while the thread has locks of iterations: in the child nobody would release them.
os.register_at_fork(
    before=lambda: _looking.acquire(),
    after_in_parent=lambda: _looking.release(),
    after_in_child=_leave_to_parent,
)

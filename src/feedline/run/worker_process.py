"""A worker process as its owner sees it: started as a fresh interpreter, sent jobs and tasks, ended."""

from __future__ import annotations

import itertools
import os
import pickle
import select
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol
from weakref import ref

import numpy as np

from feedline import frame
from feedline.block import Block
from feedline.column import is_writable
from feedline.errors import UsageError, WorkerDied, WorkerError
from feedline.graph import State
from feedline.graph.job import Outcome
from feedline.run.channel import Closed, Done, Forget, Learn, Read, Run
from feedline.run.exchange import Exchange
from feedline.run.interpreter import Interpreter, place

if TYPE_CHECKING:
    from feedline.run.processes import Crew

STARTING = 0.2
"""Seconds, about, until a new worker has begun with its work."""

_PATIENCE = 0.25  # seconds, for one that was left in the middle of something; then another is started
# Several workers with a thread for each core would only be in each other's way.
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


class WorkerLeft(WorkerDied):
    """The worker went away while it had nothing to do, so the task is not to blame."""


class Task:
    """What a worker was asked for. In the end there is an outcome, or it has `died` of it."""

    def __init__(self, crew: Crew, job: SentJob) -> None:
        self._crew = crew
        self.job = job
        self.outcome: Outcome | None = None
        self.died: WorkerDied | None = None
        self.workers = 0  # at most, among which one is to do it
        self.seconds = 0.0
        self.after: State = None  # of a stream
        self.opened = True  # if it is one

    @property
    def is_over(self) -> bool:
        return self.outcome is not None or self.died is not None

    def wait(self) -> Outcome:
        self._crew.wait(self)
        if self.died is not None:
            raise self.died
        assert self.outcome is not None
        return self.outcome


class RunTask(Task):
    """Do a job with rows."""

    def __init__(self, crew: Crew, job: SentJob, rows: Block, first: int) -> None:
        super().__init__(crew, job)
        self.plan = frame.Plan.of(rows)
        self.writable = all(map(is_writable, rows.columns))
        self.first = first  # the number of the first of them


class ReadTask(Task):
    """Give the next rows of a stream."""

    def __init__(self, crew: Crew, job: SentJob, limit: int) -> None:
        super().__init__(crew, job)
        self.limit = limit


_job_numbers = itertools.count(1)


class _Described(Protocol):
    @property
    def step(self) -> str: ...
    @property
    def function(self) -> Callable[..., Any]: ...


class SentJob:
    """A job as workers get it: pickled once."""

    def __init__(self, job: _Described) -> None:
        from feedline.run.pickling import dumps

        self.number = next(_job_numbers)
        self.step = job.step
        try:
            self.pickled = dumps(job, job.function)
        except Exception as error:
            raise UsageError(
                f"{job.step}: its function cannot be sent to a worker: {type(error).__name__}: {error}\n"
                "  Make what cannot be pickled within the function; or have it called in this process, "
                'without num_parallel_calls or with executor="thread".'
            ) from error
        module = sys.modules.get(getattr(job.function, "__module__", None) or "")
        self.module = {} if module is None else {module.__name__: module.__spec__}
        self.home: Worker | None = None  # where its stream is
        self.is_over = False


class Worker:
    """One process, and what lies between it and this one."""

    def __init__(self) -> None:
        self._place = place()
        environment = dict.fromkeys(_ONE_THREAD, "1") | os.environ
        self._process = Interpreter("feedline.run.worker", self._place, environment)
        self.channel = self._process.channel
        self.tasks: deque[tuple[int, Task]] = deque()  # with their numbers, in the order of sending
        self._exchange = Exchange(self.channel)
        self._jobs: dict[int, ref[SentJob]] = {}  # that it knows, by number
        self._sent = 0
        self.streams = 0  # that it was given to run
        self.stream_seconds = 0.0  # that they took: as long as another worker would need to get there
        self._modules: dict[str, Any] = {}  # whose functions it was given, as they were loaded here

    @property
    def load(self) -> tuple[int, int]:
        return self.streams, len(self.tasks)

    @property
    def is_running(self) -> bool:
        return self._process.is_running

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, task: Task) -> None:
        """Closed when it is gone; then the task is among `tasks` all the same."""
        assert isinstance(task, RunTask | ReadTask)
        self._sent += 1
        self.tasks.append((self._sent, task))
        job = task.job
        self.forget_jobs()
        if job.number not in self._jobs:
            if self._place != (here := place()):
                self._place = here
                self._exchange.send(here)
            self._modules.update(job.module)
            self._jobs[job.number] = ref(job)
            segment = self._exchange.lend(len(job.pickled))
            segment.memory[: len(job.pickled)] = np.frombuffer(job.pickled, np.uint8)
            self._exchange.send(Learn(job.number, segment.number, len(job.pickled)))
        if isinstance(task, ReadTask):
            self._exchange.send(Read(self._sent, job.number, task.limit))
            return
        segment = self._exchange.lend(task.plan.size)
        task.plan.write(segment.memory)
        where = segment.number, task.plan.size
        self._exchange.send(Run(self._sent, job.number, *where, task.first, task.writable))

    def forget_jobs(self) -> None:
        """Those that are over. It may have worked for others since it was given them."""
        over = [number for number, known in self._jobs.items() if (job := known()) is None or job.is_over]
        for number in over:
            del self._jobs[number]
            self._exchange.send(Forget(number))

    def end_stream(self) -> None:
        """One of those that it runs is over."""
        self.streams -= 1
        if not self.streams:
            self.stream_seconds = 0.0

    def receive(self) -> None:
        """Take one message in. Closed when it is gone."""
        message = self._exchange.receive()
        if isinstance(message, Done):
            block = None
            if message.segment is not None:
                # The memory is the consumer's until its arrays die, as that of other blocks is.
                block = frame.decode(self._exchange.borrow(message.segment, message.size), writable=True)
            error = None if message.error is None else error_of(message.error)
            number, task = self.tasks.popleft()
            assert number == message.task
            task.seconds, task.after, task.opened = message.seconds, message.after, message.opened
            task.outcome = Outcome(block, error)
            if isinstance(task, ReadTask):
                self.stream_seconds += message.seconds

    def receive_rest(self) -> None:
        """Take in what it sent before it went away. What cannot be had is asked of another one."""
        with suppress(Closed, OSError):
            while self.tasks and select.select([self.channel], [], [], 0)[0]:
                self.receive()

    def becomes_free(self) -> bool:
        """Is it there, and soon done with what it was given? What it has done is dropped."""
        if not self.is_running:
            return False
        until = time.monotonic() + _PATIENCE
        try:
            while self.tasks and select.select([self.channel], [], [], max(0, until - time.monotonic()))[0]:
                self.receive()
            return not self.tasks
        except Closed:
            return False

    def knows_other(self, job: SentJob) -> bool:
        """Has it loaded the module of the job's function before that was changed and loaded again?"""
        return any(self._modules.get(name, spec) is not spec for name, spec in job.module.items())

    def last_words(self, what: str) -> WorkerDied:
        """The error for what it was doing when it went away."""
        return self._process.last_words(what)

    def close(self) -> None:
        """End it. What it has lent stays as long as there are arrays over it."""
        self._process.close()
        self._exchange.close()


def error_of(pickled: bytes) -> Exception:
    try:
        error: Exception = pickle.loads(pickled)
        return error
    except Exception as reason:
        return WorkerError(f"an error of the function cannot be shown in this process: {reason!r}")

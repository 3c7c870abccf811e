"""Worker processes: started as fresh interpreters, kept for the next iteration, replaced when they die.

A Crew is what the steps of one iteration share. Its threads may all send and wait at the same time: whoever
waits first listens for all. There is no thread of its own, so nothing runs when nobody asks for anything.
"""

from __future__ import annotations

import atexit
import itertools
import os
import pickle
import select
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol
from weakref import WeakSet, finalize

import numpy as np

from feedline import frame
from feedline.block import Block
from feedline.column import is_writable
from feedline.errors import UsageError, WorkerDied, WorkerError
from feedline.graph import State
from feedline.graph.job import Job, Outcome
from feedline.run.channel import LEFT, Be, Channel, Closed, Done, Forget, Learn, Read, Run, not_standard
from feedline.run.exchange import Exchange

# Not `-m`: the modules must be looked for where this process does before the first is imported.
_START = """
import sys
sys.path[:] = sys.argv[3:]
from feedline.run.worker import main
main(*map(int, sys.argv[1:3]))
"""
STARTING = 0.2
"""Seconds, about, until a new worker has begun with its work."""

_LISTEN = 100  # milliseconds, after which who listens looks whether it is still wanted
_PATIENCE = 0.25  # seconds, for one that was left in the middle of something; then another is started
_GRACE = 1.0  # seconds, for a worker to end after its channel has
_MOST_WORDS = 2000  # characters of what a dead worker had written
# Several workers with a thread for each core would only be in each other's way.
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


class Task:
    """What a worker was asked for. In the end there is an outcome, or it has `died` of it."""

    def __init__(self, crew: Crew, job: SentJob) -> None:
        self._crew = crew
        self.job = job
        self.outcome: Outcome | None = None
        self.died: WorkerDied | None = None
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


class ProcessTeam:
    """One job, done by workers of a crew."""

    def __init__(self, crew: Crew, job: Job, size: int) -> None:
        self.size = size
        self._crew = crew
        self._job = SentJob(job)
        self._is_open = True
        crew.enter()

    def send(self, rows: Block, first: int) -> Task:
        task = RunTask(self._crew, self._job, rows, first)
        self._crew.send(task, self.size)
        return task

    def close(self, wait: bool = True) -> None:
        if self._is_open:
            self._is_open = False
            self._crew.forget(self._job)
            self._crew.leave()


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


def _place() -> Be:
    """Where this process is, and looks for modules."""
    try:
        directory = os.getcwd()
    except FileNotFoundError:  # it was removed
        directory = os.sep
    return Be(directory, tuple(path or directory for path in sys.path))


class Worker:
    """One process, and what lies between it and this one."""

    def __init__(self) -> None:
        self.channel, there = Channel.pair()
        self._words = not_standard(os.memfd_create("feedline", os.MFD_CLOEXEC))
        passed = there.fileno(), self._words
        self._place = _place()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _START, *map(str, passed), *self._place.paths],
                stdin=subprocess.DEVNULL,
                pass_fds=passed,
                process_group=0,  # Ctrl-C is for this process
                env=dict.fromkeys(_ONE_THREAD, "1") | os.environ,
            )
        except BaseException:
            self.channel.close()
            os.close(self._words)
            raise
        finally:
            there.close()
        self.tasks: deque[tuple[int, Task]] = deque()  # with their numbers, in the order of sending
        self._exchange = Exchange(self.channel)
        self._jobs: set[int] = set()
        self._sent = 0
        self.streams = 0  # that it was given to run
        self._modules: dict[str, Any] = {}  # whose functions it was given, as they were loaded here
        _all.add(self)

    @property
    def load(self) -> tuple[int, int]:
        return self.streams, len(self.tasks)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, task: Task) -> None:
        """Closed when it is gone; then the task is among `tasks` all the same."""
        assert isinstance(task, RunTask | ReadTask)
        self._sent += 1
        self.tasks.append((self._sent, task))
        job = task.job
        if job.number not in self._jobs:
            if self._place != (place := _place()):
                self._place = place
                self._exchange.send(place)
            self._modules.update(job.module)
            self._jobs.add(job.number)
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

    def forget(self, job: SentJob) -> None:
        if job.number in self._jobs:
            self._jobs.discard(job.number)
            self.streams -= job.home is self
            self._exchange.send(Forget(job.number))

    def receive(self) -> None:
        """Take one message in. Closed when it is gone."""
        message = self._exchange.receive()
        if isinstance(message, Done):
            block = None
            if message.segment is not None:
                # The memory is the consumer's until its arrays die, as that of other blocks is.
                block = frame.decode(self._exchange.borrow(message.segment, message.size), writable=True)
            error = None if message.error is None else _error_of(message.error)
            number, task = self.tasks.popleft()
            assert number == message.task
            task.seconds, task.after, task.opened = message.seconds, message.after, message.opened
            task.outcome = Outcome(block, error)

    def becomes_free(self) -> bool:
        """Is it there, and soon done with what it was given? What it has done is dropped."""
        if self._process.poll() is not None:
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

    def has_left(self) -> bool:
        """Did it go by itself, because it had nothing to do?"""
        return self._exit_code() == LEFT

    def _exit_code(self) -> int:
        try:
            return self._process.wait(timeout=_GRACE)
        except subprocess.TimeoutExpired:  # it has closed the channel, and lives
            self._process.kill()
            return self._process.wait()

    def last_words(self, what: str) -> WorkerDied:
        """The error for what it was doing when it went away."""
        code = self._exit_code()
        how = f"exit code {code}" if code >= 0 else _signal_name(-code)
        words = os.pread(self._words, 1 << 20, 0).decode(errors="replace")[-_MOST_WORDS:].strip()
        said = f"  The last it wrote to stderr:\n{words}" if words else "  It wrote nothing to stderr."
        hint = "  Perhaps it took more memory than there is.\n" if code == -signal.SIGKILL else ""
        return WorkerDied(f"{what}: the worker (process {self.pid}) went away with {how}.\n{hint}{said}")

    def close(self) -> None:
        """End it. What it has lent stays as long as there are arrays over it."""
        self._process.kill()
        self._process.wait()
        self._exchange.close()
        os.close(self._words)


def _signal_name(number: int) -> str:
    try:
        return f"signal {signal.Signals(number).name}"
    except ValueError:  # one for real time
        return f"signal {number}"


def _error_of(pickled: bytes) -> Exception:
    try:
        error: Exception = pickle.loads(pickled)
        return error
    except Exception as reason:
        return WorkerError(f"an error of the function cannot be shown in this process: {reason!r}")


# Of this process, for the next who needs one. Without a lock, which a finalizer could wait for in the very
# thread that holds it: what is done to it is done at once.
_idle: deque[Worker] = deque()
_all: WeakSet[Worker] = WeakSet()


def _leave_to_parent() -> None:
    """In a forked child. With its copies of their sockets, workers would not notice the parent's end."""
    for worker in tuple(_all):
        worker.channel.close()
    _idle.clear()


os.register_at_fork(after_in_child=_leave_to_parent)


def _hire(job: SentJob) -> Worker:
    while True:
        try:
            worker = _idle.pop()
        except IndexError:
            return Worker()
        try:
            if not worker.knows_other(job) and worker.becomes_free():
                return worker
        except BaseException:
            worker.close()
            raise
        worker.close()


def are_idle() -> bool:
    """Are there workers that nobody needs to wait for?"""
    return bool(_idle)


@atexit.register
def _dismiss_idle() -> None:
    while _idle:
        _idle.pop().close()


class Crew:
    """The workers of one iteration."""

    def __init__(self) -> None:
        self._workers: list[Worker] = []
        self._changed = threading.Condition()
        self._listened_until = 0.0  # by another thread
        self._closed = False
        self._users = 0
        self._owner = os.getpid()
        self._dismiss = finalize(self, _release, self._workers, self._owner)
        self._dismiss.atexit = False  # workers end with this process

    def enter(self) -> None:
        """There is one more who needs workers."""
        with self._changed:
            self._users += 1

    def leave(self) -> None:
        """With the last, the workers are free for others."""
        if os.getpid() != self._owner:
            return  # in a forked child they are its parent's
        with self._changed:
            self._users -= 1
            if not self._users:
                self._closed = True
                self._dismiss()
                self._changed.notify_all()

    def forget(self, job: SentJob) -> None:
        """It is done."""
        if os.getpid() != self._owner:
            return
        with self._changed:
            for worker in self._workers:
                with suppress(Closed):  # that it is gone is found out when it is needed
                    worker.forget(job)

    def send(self, task: Task, workers: int) -> None:
        """Give the task to that of the first `workers` workers which has least to do.

        One more is started when all have something to do. A stream stays where it began.
        """
        with self._changed:
            self._check_open()
            worker = task.job.home or self._least_busy(task.job, workers)
            if isinstance(task, ReadTask) and task.job.home is None:
                task.job.home = worker
                worker.streams += 1
            if worker in self._workers:
                self._send(task, worker)
            else:
                task.died = WorkerDied(f"{task.job.step}: its worker went away.")

    def _least_busy(self, job: SentJob, workers: int) -> Worker:
        worker = min(self._workers[:workers], key=lambda one: one.load, default=None)
        if worker is not None and (worker.load == (0, 0) or len(self._workers) >= workers):
            return worker
        try:
            self._workers.append(_hire(job))
        except OSError as error:
            if worker is None:
                raise WorkerError(f"{job.step}: no worker could be started: {error}.") from error
            return worker
        return self._workers[-1]

    def _send(self, task: Task, worker: Worker) -> None:
        try:
            worker.send(task)
        except Closed:
            self._bury(worker)
        except BaseException:
            self._give_up(worker)
            raise

    def wait(self, task: Task) -> None:
        """Until the task is over."""
        while not self._is_over(task):
            # Without the lock, so that others may send. An interrupt here, whenever it comes, leaves nothing
            # behind but a time until which others think that they need not listen.
            self._poll().poll(_LISTEN)
            with self._changed:
                self._listened_until = 0.0
                self._take_in()
                self._changed.notify_all()

    def _is_over(self, task: Task) -> bool:
        """If not, the caller must listen."""
        with self._changed:
            while not task.is_over:
                self._check_open()
                now = time.monotonic()
                if now >= self._listened_until:
                    self._listened_until = now + 2 * _LISTEN / 1000
                    return False
                self._changed.wait(self._listened_until - now)
            return True

    @property
    def size(self) -> int:
        return len(self._workers)

    @property
    def is_open(self) -> bool:
        return not self._closed

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError("this iterator was closed while another thread read from it.")
        if os.getpid() != self._owner:
            raise UsageError(
                "this iterator was begun in another process, which this one was forked from.\n"
                "  iter(dataset) gives a new one, whose load_state_dict() goes on from the other's state."
            )

    def _poll(self) -> select.poll:
        """For what workers send."""
        poll = select.poll()
        for worker in tuple(self._workers):
            if (fd := worker.channel.fileno()) >= 0:
                poll.register(fd, select.POLLIN)
        return poll

    def _take_in(self) -> None:
        """What workers have sent."""
        workers = {worker.channel.fileno(): worker for worker in self._workers}
        for fd, _ in self._poll().poll(0):
            worker = workers[fd]
            if worker not in self._workers:
                continue  # it was replaced while another one was
            try:
                worker.receive()
            except Closed:
                self._bury(worker)
            except BaseException:
                self._give_up(worker)
                raise

    def _give_up(self, worker: Worker) -> None:
        """Of one that was interrupted in the middle of a message, nobody knows what it knows."""
        if worker in self._workers:
            self._workers.remove(worker)
        for _, task in worker.tasks:
            task.died = WorkerDied(f"{task.job.step}: its worker was given up.")
        worker.close()
        self._changed.notify_all()

    def _bury(self, worker: Worker) -> None:
        """Put another in its place, which does what was still to do, except for what it died of."""
        tasks = [task for _, task in worker.tasks]
        at = self._workers.index(worker)
        if tasks and not worker.has_left():
            tasks[0].died = worker.last_words(tasks[0].job.step)
        for task in tasks:
            if task.job.home is worker and not task.is_over:
                task.died = WorkerDied(f"{task.job.step}: its worker went away.")
        tasks = [task for task in tasks if not task.is_over]
        worker.close()
        try:
            self._workers[at] = _hire(tasks[0].job) if tasks else Worker()
        except OSError as error:
            del self._workers[at]
            for task in tasks:
                task.died = WorkerDied(f"{task.job.step}: no other worker could be started: {error}.")
            return
        for task in tasks:
            self._send(task, self._workers[at])


def _release(workers: list[Worker], owner: int) -> None:
    """They wait for the next iteration."""
    if os.getpid() == owner:
        _idle.extend(workers)
    workers.clear()

"""Crews: the worker processes of one iteration, which its steps share.

The threads of an iteration may all send and wait at the same time: whoever waits first listens for all. A
crew has no thread of its own. Workers come from the pool of this process and go back to it.
"""

from __future__ import annotations

import os
import select
import threading
import time
from contextlib import suppress
from weakref import finalize

from feedline.block import Block
from feedline.errors import UsageError, WorkerDied, WorkerError
from feedline.run import pool
from feedline.run.channel import Closed
from feedline.run.worker_process import ReadTask, RunTask, SentJob, Task, Worker, WorkerLeft

_LISTEN = 100  # milliseconds, after which who listens looks whether it is still wanted
_LONGEST_PATIENCE = 60.0  # seconds


class ProcessTeam:
    """One job, done by workers of a crew."""

    def __init__(self, crew: Crew, job: SentJob, size: int, *, keep_job: bool = False) -> None:
        """With `keep_job`, workers know the job as long as it lives, and not only as long as the team."""
        self.size = size
        self._crew = crew
        self._job = job
        self._keep_job = keep_job
        self._is_open = True
        crew.enter(size)

    def send(self, rows: Block, first: int) -> Task:
        task = RunTask(self._crew, self._job, rows, first)
        self._crew.send(task, self.size)
        return task

    def close(self, wait: bool = True) -> None:
        if self._is_open:
            self._is_open = False
            if not self._keep_job:
                self._crew.forget(self._job)
            self._crew.leave()


class Crew:
    """The workers of one iteration."""

    def __init__(self) -> None:
        self._workers: list[Worker] = []
        self._changed = threading.Condition()
        self._listened_until = 0.0  # by another thread
        self._closed = False
        self._users = 0
        self.wanted = 0  # workers, by the step that asked for most
        self.patience = pool.IDLE  # seconds without a use after which the pool ends the workers
        self._used_at = time.monotonic()
        self._is_hiring = False
        self._was_missed = False  # has it been used after its workers were ended?
        self._owner = os.getpid()
        self._dismiss = finalize(self, _release, self._workers, self._owner)
        self._dismiss.atexit = False  # workers end with this process
        pool.know(self)

    def enter(self, workers: int) -> None:
        """There is one more who needs workers, so many at most."""
        with self._changed:
            self._users += 1
            self.wanted = max(self.wanted, workers)

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
            job.is_over = True
            if job.home is not None:
                job.home.end_stream()
            for worker in self._workers:
                with suppress(Closed):  # that it is gone is found out when it is needed
                    worker.forget_jobs()

    def send(self, task: Task, workers: int) -> None:
        """Give the task to that of the first `workers` workers which has least to do.

        One more is started when all have something to do. A stream stays where it began.
        """
        with self._changed:
            self._check_open()
            self._note_pause()
            task.workers = workers
            worker = task.job.home or self._least_busy(task)
            if isinstance(task, ReadTask) and task.job.home is None:
                task.job.home = worker
                worker.streams += 1
            if worker in self._workers:
                self._send(task, worker)
            else:
                task.died = WorkerLeft(f"{task.job.step}: its worker went away.")

    def _note_pause(self) -> None:
        """Let workers stay longer that are missed again and again: between slow training steps, say."""
        now = time.monotonic()
        pause, self._used_at = now - self._used_at, now
        if pause > self.patience:
            if self._was_missed:
                self.patience = min(2 * pause, _LONGEST_PATIENCE)
            self._was_missed = True

    def give_back(self, pause: float, most: int | None = None) -> list[Worker]:
        """Workers without a task, if nobody has used this crew for so long. They are the caller's then.

        Results that they have sent stay with their tasks.
        """
        if not self._workers or not self._changed.acquire(blocking=False):
            return []  # it has none, or is in use
        try:
            now = time.monotonic()
            unused = now - self._used_at
            if unused < pause or now < self._listened_until or self._is_hiring:
                return []
            with suppress(Exception):  # whose tasks were given up for it
                while self._take_in():
                    pass
            free = [worker for worker in self._workers if self._can_go(worker, pause, unused)][:most]
            for worker in free:
                self._workers.remove(worker)
            return free
        finally:
            self._changed.release()

    def _can_go(self, worker: Worker, pause: float, unused: float) -> bool:
        if not worker.streams:
            return not worker.tasks
        # Another one has to run its streams again, up to where they are.
        return not worker.tasks and pause >= self.patience and unused >= worker.stream_seconds

    def _least_busy(self, task: Task) -> Worker:
        """One that is there, or a new one if all have something to do and there may be more."""
        worker = min(self._workers[: task.workers], key=lambda one: one.load, default=None)
        if worker is not None and (worker.load == (0, 0) or len(self._workers) >= task.workers):
            return worker
        self._is_hiring = True
        try:
            another = pool.hire(task.job, self)
        except OSError as error:
            if worker is None:
                raise WorkerError(f"{task.job.step}: no worker could be started: {error}.") from error
            return worker
        finally:
            self._is_hiring = False
        if another is None:
            assert worker is not None
            return worker
        self._workers.append(another)
        return another

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
            self._used_at = time.monotonic()
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

    def _take_in(self) -> bool:
        """What workers have sent, a message of each; was there any?"""
        workers = {worker.channel.fileno(): worker for worker in self._workers}
        found = self._poll().poll(0)
        for fd, _ in found:
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
        return bool(found)

    def _give_up(self, worker: Worker) -> None:
        """Of one that was interrupted in the middle of a message, nobody knows what it knows."""
        if worker in self._workers:
            self._workers.remove(worker)
        for _, task in worker.tasks:
            task.died = WorkerDied(f"{task.job.step}: its worker was given up.")
        worker.close()
        self._changed.notify_all()

    def _bury(self, worker: Worker) -> None:
        """Have others do what it had still to do, except for what it died of."""
        worker.receive_rest()
        self._workers.remove(worker)
        tasks = [task for _, task in worker.tasks]
        if tasks:
            tasks[0].died = worker.last_words(tasks[0].job.step)
        worker.close()
        for task in tasks:
            if task.job.home is worker and not task.is_over:
                task.died = WorkerDied(f"{task.job.step}: its worker went away.")
            if not task.is_over:
                self._send_again(task)

    def _send_again(self, task: Task) -> None:
        try:
            self._send(task, self._least_busy(task))
        except WorkerError as error:
            task.died = WorkerDied(f"{task.job.step}: no other worker could be started: {error}")


def _release(workers: list[Worker], owner: int) -> None:
    if os.getpid() == owner:
        pool.put_back(workers)
    workers.clear()

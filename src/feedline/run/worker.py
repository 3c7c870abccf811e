"""A worker: a process that does jobs for the one that started it, and ends with it.

It is a fresh interpreter, so it needs nothing of the user's script, and no lock of a library was held when
it began. Rows come in as frames in shared memory, and results go back so.
"""

from __future__ import annotations

import faulthandler
import gc
import importlib
import os
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import IO, Any, NoReturn

from feedline import _native, frame
from feedline.block import Block
from feedline.errors import WorkerError
from feedline.graph import State, Stream
from feedline.graph.calls import Collector
from feedline.records import open_files
from feedline.run import pickling
from feedline.run.channel import Be, Channel, Closed, Done, Forget, Learn, Read, Run
from feedline.run.clock import MOST_SECONDS, deadline
from feedline.run.exchange import Exchange
from feedline.run.services import LocalServices
from feedline.tracebacks import shortened

LULL = 0.02
"""Seconds without a task after which there is time to tidy up."""


def main(channel: int, last_words: int, most_open_files: int) -> None:
    open_files.set_limit(most_open_files)
    sock = settle(channel, last_words)
    gc.freeze()  # what was imported stays: collections need not look at it
    with suppress(Closed):
        _Worker(Channel(sock)).serve()
    leave()


def settle(channel: int, last_words: int) -> socket.socket:
    """Make this process one that ends with its owner, at the other end of the socket, and tells it why."""
    sock = socket.socket(fileno=channel)
    # Processes that the user's functions start must not hold the socket: its end tells of this one's.
    sock.set_inheritable(False)
    os.set_inheritable(last_words, False)
    os.register_at_fork(after_in_child=sock.close)
    _native.exit_with_peer(sock.fileno())
    words = os.fdopen(last_words, "w", buffering=1, errors="replace")
    faulthandler.enable(words, all_threads=False)
    if sys.stderr is not None:
        sys.stderr = _Tee(sys.stderr, words)
    # Ctrl-C is for the owner, who ends its workers when it goes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return sock


def leave() -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(0)  # not by way of what users' modules do at exit: the owner may be gone


_MOST_WORDS = 64 << 10


class _Worker:
    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._exchange = Exchange(channel)
        self._jobs: dict[int, Any] = {}
        self._streams: dict[int, Stream] = {}
        self._has_litter = False  # of jobs that are over

    def serve(self) -> None:
        """Do what is asked, until the owner ends this process or is gone."""
        waiting = select.poll()
        waiting.register(self._channel.fileno(), select.POLLIN)
        while True:
            if not waiting.poll(LULL * 1000):
                self._rest(waiting)
            message = self._exchange.receive()
            if isinstance(message, Run | Read):
                self._do(message)
            elif isinstance(message, Learn):
                self._jobs[message.job] = self._learned(message)
            elif isinstance(message, Be):
                with suppress(OSError):  # it was removed, say
                    os.chdir(message.directory)
                sys.path[:] = message.paths
                importlib.invalidate_caches()
            elif isinstance(message, Forget):
                del self._jobs[message.job]
                if (stream := self._streams.pop(message.job, None)) is not None:
                    stream.close()
                self._has_litter = True

    def _rest(self, waiting: select.poll) -> None:
        """Until something is asked."""
        if self._has_litter:
            gc.collect()  # streams refer to each other, and hold memory
            self._has_litter = False
        waiting.poll()

    def _learned(self, message: Learn) -> Any:
        try:
            pickled = self._exchange.borrow(message.segment, message.size).tobytes()
            job = pickling.loads(pickled)
            if hasattr(job, "context"):
                job = replace(job, context=job.context.served_by(LocalServices(is_remote=True)))
            return job
        except Exception as error:
            return _Failed(error)

    def _do(self, message: Run | Read) -> None:
        began = time.perf_counter()
        after: State = None
        if isinstance(message, Run):
            plan, error = self._run(message)
        else:
            plan, error, after = self._read(message)
        opened = isinstance(message, Run) or message.job in self._streams
        number, size = None, 0
        if plan is not None:
            try:
                segment = self._exchange.lend(plan.size)
                plan.write(segment.memory)
                number, size = segment.number, plan.size
            except Exception as unfit:  # there is no memory, say: for fewer rows there may be
                error = unfit if isinstance(message, Read) or plan.rows == 1 else None
        del plan
        pickled = None if error is None else pickled_error(error)
        seconds = time.perf_counter() - began
        self._exchange.send(Done(message.task, number, size, pickled, seconds, after, opened))

    def _run(self, message: Run) -> tuple[frame.Plan | None, Exception | None]:
        """The results, ready to be written, and the error of the row after them."""
        rows = frame.decode(self._exchange.borrow(message.segment, message.size), message.writable)
        try:
            results, error = self._jobs[message.job].run(rows, message.first, deadline(MOST_SECONDS))
            return results.plan() if len(results) else None, error
        except Exception as unfit:  # what was returned can only be used where it was made
            return None, unfit
        except BaseException as left:
            return None, WorkerError(f"the function wanted to end the process, by {left!r}.")

    def _read(self, message: Read) -> tuple[frame.Plan | None, Exception | None, State]:
        """The next block of a stream, or its error, and the state after that."""
        block, error, after = None, None, None
        try:
            stream = self._streams.get(message.job)
            if stream is None:
                stream = self._streams[message.job] = self._open(self._jobs[message.job])
            try:
                block = stream.next(message.limit)
            except Exception as failed:
                error = failed
            after = stream.state()
            return None if block is None else frame.Plan.of(block), error, after
        except Exception as failed:  # it cannot be opened, or what it gives can only be used here
            if message.job not in self._streams:
                self._jobs[message.job] = _Failed(
                    failed
                )  # which was asked for twice: the function was called once
            return None, failed, after
        except BaseException as left:
            return None, WorkerError(f"the function wanted to end the process, by {left!r}."), after

    def _open(self, opening: Any) -> Stream:
        if isinstance(opening, _Failed):
            raise opening.error
        stream: Stream = opening.open()
        return stream


class _Failed:
    """A job that could not be loaded: a module of the user's is not to be found here, say."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def run(self, rows: Block, first: int, late: Callable[[], bool]) -> tuple[Collector, Exception | None]:
        return Collector("nothing"), self.error


def pickled_error(error: Exception, where: str = "in a worker") -> bytes:
    """The error for the other side: as it is, if that is possible, and with where it was raised here."""
    if trace := _trace(error):
        error.add_note(f"  {where}:\n{trace}")
    try:
        pickled = pickling.dumps(error)
        pickling.loads(pickled)
        return pickled
    except Exception:
        pass  # it holds what cannot be pickled, or is made with other arguments than it keeps
    told = WorkerError(f"{type(error).__name__}: {error}")
    for note in getattr(error, "__notes__", ()):
        told.add_note(note)
    return pickling.dumps(told)


def _trace(error: Exception) -> str:
    """Where the user's function raised it."""
    return "".join(traceback.format_tb(shortened(error.__traceback__))).rstrip()


class _Tee:
    """A stream whose text goes to a second one too, for the owner, if this process should die."""

    def __init__(self, stream: IO[str], words: IO[str]) -> None:
        self._stream, self._words = stream, words

    def write(self, text: str) -> int:
        if self._words.tell() > _MOST_WORDS:
            self._words.seek(0)
            self._words.truncate()
        self._words.write(text)
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

"""How many data files may be open at a time: one limit for the process, and a budget for each pipeline.

The native core keeps the count. A reader borrows a file for each read; when the limit is reached, the file
that was used least recently is closed, and opened again when it is read next.

Worker processes share: the limit of the process, and each budget, is divided between this process and its
workers when workers are first asked for.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from threading import Lock
from typing import Any
from weakref import ref

from feedline import _native

_process = _native.FileBudget.process()
_limit: int = _process.limit  # before workers have their shares


def limit() -> int:
    """How many data files this process and its workers may have open together.

    Half of what `ulimit -n` allows, at most 256, unless `set_limit` was called.
    """
    return _limit


def set_limit(files: int) -> None:
    """Change the limit. Files beyond it are closed at once, those that are being read when the read ends.

    Workers that run already keep their shares.
    """
    global _limit
    if files < 1:
        raise ValueError(f"set_limit({files}): one file at least must be open.")
    _limit = files
    _process.limit = max(1, files - _lent)


def open_now() -> int:
    """Data files that this process has open; those of its workers are not counted."""
    return _process.open


def most_open() -> int:
    """The most that it had open at the same time."""
    return _process.most


_lent = 0  # of the limit, to workers


def lend(shares: Iterable[int]) -> None:
    """Leave to the workers of this process the shares that they were given."""
    global _lent
    _lent = sum(shares)
    _process.limit = max(1, _limit - _lent)


def share_of_worker(workers: int) -> int:
    """The limit of each worker: all workers share half of the total, and each gets at least one file."""
    return max(1, _limit // 2 // workers)


_numbers = itertools.count()


class FileBudget:
    """How many files a pipeline may have open, in this process and its workers together.

    Each `with_options(max_open_files=...)` has one, which all its iterators share. Pickled for a worker, it
    becomes the worker's share.
    """

    def __init__(self, limit: int, key: tuple[int, int] | None = None) -> None:
        self._limit = limit
        self._key = key or (os.getpid(), next(_numbers))
        self._lock = Lock()
        self._crew: ref[Any] | None = None  # whose workers have the shares
        self._workers = 0
        self._share = 0
        self.native = _native.FileBudget(limit)

    def workers_for(self, crew: Any, workers: int) -> int:
        """How many of `workers` processes may read files; 0: files are to be read in this process.

        Divided once and for good: a worker may still read when the iteration that sent it is over. So the
        workers of one crew read at a time, and those of others not.
        """
        with self._lock:
            sharing = None if self._crew is None else self._crew()
            if sharing is not None and sharing is not crew and sharing.is_open:
                return 0
            if not self._workers:
                self._workers = min(workers, self._limit - 1)
                self._share = self._limit // (self._workers + 1)
                self.native.limit = self._limit - self._workers * self._share
            self._crew = ref(crew)
            return min(workers, self._workers)

    def __reduce__(self) -> tuple[Any, ...]:
        return _shared, (self._key, max(1, self._share))


_shares: dict[tuple[int, int], FileBudget] = {}  # of other processes' budgets, in this one


def _shared(key: tuple[int, int], limit: int) -> FileBudget:
    """The same one for all streams of a pipeline that this worker runs."""
    return _shares.setdefault(key, FileBudget(limit, key))

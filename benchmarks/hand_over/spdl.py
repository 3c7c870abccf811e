"""spdl: an iterable in each of 2 subprocesses, with batches in a pool of shared-memory segments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from spdl.pipeline import SharedMemorySegmentPool, iterate_in_subprocess

from benchmarks.hand_over import Batch

ROWS = {"spdl": [{"buffer": 3}, {"buffer": 8}]}
WORKERS = 2


class Part:
    """Every second batch; it can be iterated again."""

    def __init__(self, count: int, batch_of: Callable[[Any], Batch], worker: int) -> None:
        self._count, self._batch_of, self._worker = count, batch_of, worker

    def __iter__(self) -> Iterator[Batch]:
        for number in range(self._worker, self._count, WORKERS):
            yield self._batch_of(number)


_parts: dict[int, list[Any]] = {}


def run(subject: tuple[int, Callable[[Any], Batch]], buffer: int) -> Iterator[Batch]:
    count, batch_of = subject
    # The same subprocesses for all passes, as feedline's workers stay.
    if buffer not in _parts:
        size = np.asarray(batch_of(0)["x"]).nbytes + 4096
        _parts[buffer] = [
            iterate_in_subprocess(
                partial(Part, count, batch_of, worker),
                buffer_size=buffer,
                arena=SharedMemorySegmentPool(size, buffer + 2),  # one is written, and one is looked at
            )
            for worker in range(WORKERS)
        ]
    streams = [iter(part) for part in _parts[buffer]]
    for number in range(count):
        yield next(streams[number % WORKERS])

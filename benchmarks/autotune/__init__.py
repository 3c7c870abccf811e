"""Does a pipeline that was left to AUTOTUNE reach one that was tuned by hand?

A rival defines `run(x, function, **settings)`: an iterator of batches of 32 rows of x, each put through
`function`. The functions: one that takes a microsecond or two, for which a worker is little help, and one
that computes for a quarter of a millisecond, for which it is. The consumer computes too, about a
millisecond for a batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.workloads import Workload

FUNCTION = "run"
WORKLOADS = ("quick", "slow")
FILES = 1
BASES = ("by_hand",)
COUNTS = {"quick": 200_000, "slow": 8_000}
SIZE, BATCH = 64, 32
CONSUMER = 0.001  # seconds for a batch of a slow function

Batches = Iterator[Any]


def load(name: str, files: int) -> Workload:
    return Workload(name, (), COUNTS[name], COUNTS[name] * SIZE * 4, 0)


def _rows(workload: Workload) -> Any:
    return np.arange(workload.records * SIZE, dtype=np.float32).reshape(-1, SIZE)


def quick(x: Any) -> Any:
    return x * 2


def slow(x: Any) -> Any:
    spend(0.00025)
    return x * 2


def spend(seconds: float) -> None:
    """Of this thread's own time: on a busy core, that by the clock would be less work."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def prepare(workload: Workload) -> tuple[Any, Callable[[Any], Any]]:
    return _rows(workload), quick if workload.name == "quick" else slow


def check(answer: Batches, workload: Workload) -> None:
    found = np.concatenate(list(answer))
    if not np.array_equal(found, 2 * _rows(workload)):
        raise AssertionError("the rows are not what the function makes of them")


def consume(answer: Batches, workload: Workload) -> None:
    count = 0
    for batch in answer:
        count += len(batch)
        if workload.name == "slow":
            spend(CONSUMER)
    if count != workload.records:
        raise AssertionError(f"{count} rows of {workload.records}")

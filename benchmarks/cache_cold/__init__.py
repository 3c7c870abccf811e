"""How long do 4 runs take that start at once on a cold cache, where an element takes 5 ms to compute?

A rival defines `run(count, **settings)`: it starts the runs, each a process of its own that goes through
`count` elements computed by 2 worker processes, and returns when all have ended. As fast as one run alone
would be as if the others cost nothing: that is the measure.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.workloads import Workload

FUNCTION = "run"
WORKLOADS = ("elements",)
FILES = 1
BASES = ("one_run", "apart")
COUNT = 12_000  # half a minute: starting the processes of 4 runs is to be a small part of it


def load(name: str, files: int) -> Workload:
    return Workload(name, (), COUNT, 8 * 64 * COUNT, 0)


def prepare(workload: Workload) -> int:
    return workload.records


def slow(number: Any) -> Any:
    # Of this thread's own time: on a busy core, 5 ms by the clock would be less work.
    end = time.thread_time() + 0.005
    while time.thread_time() < end:
        pass
    return np.full(64, number, np.float64)


def consume(answer: list[float], workload: Workload) -> None:
    wanted = 64.0 * sum(range(workload.records))
    if set(answer) != {wanted}:
        raise AssertionError(f"runs summed up to {answer}, not to {wanted}")


def check(answer: list[float], workload: Workload) -> None:
    consume(answer, workload)

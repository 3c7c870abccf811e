"""How well do 2 worker processes share a function that computes in Python for 2 ms for each element?

A rival defines `run(count, **settings)`: an iterator of `count` elements, for one pass, each what `slow` gave
for its number. `one_process` calls it in a plain loop: twice that rate is what 2 workers could reach.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.workloads import Workload

FUNCTION = "run"
WORKLOADS = ("elements",)
FILES = 1
BASES = ("one_process", "torch_dataloader")
COUNT = 1000


def load(name: str, files: int) -> Workload:
    return Workload(name, (), COUNT, 8 * COUNT, 0)


def prepare(workload: Workload) -> int:
    return workload.records


def slow(number: Any) -> Any:
    # Of this thread's own time: on a busy core, 2 ms by the clock would be less work.
    end = time.thread_time() + 0.002
    while time.thread_time() < end:
        pass
    return np.int64(number)


def check(answer: Iterator[Any], workload: Workload) -> None:
    if [int(x) for x in answer] != list(range(workload.records)):
        raise AssertionError("the elements are not the numbers in their order")


consume = check

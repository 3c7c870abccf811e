"""How fast do batches of 1 MB reach a program from a service in other processes on the same host?

A rival defines `run(count, **settings)`: an iterator of `count` batches, for one pass. A batch is a number
and 262,144 floats that are all `number % 4`: the rows of `arrays()`, again and again, in their order. The
service runs in processes of its own, which are started before the first pass. Making a batch costs a copy at
most, so what is measured is the way.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.workloads import Workload

FUNCTION = "run"
WORKLOADS = ("batches",)
FILES = 1
BASES = ("tf_data_service",)
COUNT = 2000
FLOATS = 1 << 18
PAGE = 1024  # floats

Batch = tuple[Any, Any]


def arrays() -> Any:
    return np.repeat(np.arange(4, dtype=np.float32), FLOATS).reshape(4, FLOATS)


def load(name: str, files: int) -> Workload:
    return Workload(name, (), COUNT, 4 * FLOATS * COUNT, 0)


def prepare(workload: Workload) -> int:
    return workload.records


def check(answer: Iterator[Batch], workload: Workload) -> None:
    count = 0
    for wanted, (number, batch) in enumerate(answer):
        x = np.asarray(batch)
        if int(number) != wanted or x.shape != (FLOATS,) or (x != number % 4).any():
            raise AssertionError(f"batch {wanted} is not what was made")
        count += 1
    if count != workload.records:
        raise AssertionError(f"{count} batches of {workload.records}")


def consume(answer: Iterator[Batch], workload: Workload) -> None:
    """The timed pass: a value of every page is looked at."""
    count = 0
    for _, batch in answer:
        count += 1
        if float(np.asarray(batch)[::PAGE].sum()) < 0:
            raise AssertionError("negative")
    if count != workload.records:
        raise AssertionError(f"{count} batches of {workload.records}")

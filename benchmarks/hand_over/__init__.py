"""How fast do batches that 2 worker processes make reach the process that trains?

A rival defines `run(count, batch_of, **settings)`: an iterator of `count` batches, for one pass, each what
`batch_of(number)` gave in a worker: {"x": an array of floats, "number": number}, in the order of the numbers.

Making a batch costs nothing, so what is measured is the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.workloads import Workload

FUNCTION = "run"
WORKLOADS = ("large", "small")  # 32 images of 224 x 224 x 3 floats, 19 MB; 1,024 floats, 4 KB
FILES = 1
BASES = ("torch_dataloader", "grain", "spdl", "keras_pydataset")

SHAPES = {"large": (32, 224, 224, 3), "small": (1024,)}
COUNTS = {"large": 200, "small": 4000}
PAGE = 1024  # floats

Batch = dict[str, Any]


def load(name: str, files: int) -> Workload:
    size = 4 * int(np.prod(SHAPES[name]))
    return Workload(name, (), COUNTS[name], COUNTS[name] * size, 0)


class BatchOf:
    """The function of a number that gives a batch: one of four arrays, which each process makes once."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._shape = shape
        self._arrays: list[Any] = []

    def __call__(self, number: Any) -> Batch:
        if not self._arrays:
            self._arrays = [np.full(self._shape, value, np.float32) for value in range(4)]
        return {"x": self._arrays[int(number) % 4], "number": np.int64(number)}


def prepare(workload: Workload) -> tuple[int, Callable[[Any], Batch]]:
    return workload.records, BatchOf(SHAPES[workload.name])


def check(answer: Iterator[Batch], workload: Workload) -> None:
    for number, batch in enumerate(answer):
        x = np.asarray(batch["x"])
        if int(batch["number"]) != number or x.shape != SHAPES[workload.name] or (x != number % 4).any():
            raise AssertionError(f"batch {number} is not what was made")


def consume(answer: Iterator[Batch], workload: Workload) -> None:
    """The timed pass: a value of every page is looked at."""
    count = 0
    for batch in answer:
        count += 1
        if float(np.asarray(batch["x"]).reshape(-1)[::PAGE].sum()) < 0:
            raise AssertionError("negative")
    if count != workload.records:
        raise AssertionError(f"{count} batches of {workload.records}")

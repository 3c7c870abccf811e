"""How long does the first batch take from a cold start, with 2 worker processes?

A rival defines `run(count, batch_of, **settings)`, a generator function: the batches that `batch_of(number)`
gives in its workers, from a pipeline that it builds when the first is asked for.

Each pass is made by a fork of this process, which has imported what the rival needs and begun nothing: so the
pipeline is built and its workers are started anew. A batch has 1,000 rows: "thousand records/s" is one over
the seconds.
"""

from __future__ import annotations

import os
import traceback
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np

from benchmarks.workloads import Workload

FUNCTION = "run"
WORKLOADS = ("batches",)
FILES = 1
BASES = ("torch_spawn",)
COUNT, SHAPE = 100, (1000, 16)


def load(name: str, files: int) -> Workload:
    return Workload(name, (), SHAPE[0], 4 * SHAPE[0] * SHAPE[1], 0)


def batch_of(number: Any) -> Any:
    return np.full(SHAPE, int(number) + 1, np.float32)


def prepare(workload: Workload) -> tuple[int, Callable[[Any], Any]]:
    return COUNT, batch_of


def consume(answer: Iterator[Any], workload: Workload) -> None:
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        _take_first(answer, writing)
    os.close(writing)
    said = os.read(reading, 100)
    os.close(reading)
    weakref.finalize(answer, os.waitpid, process, 0)  # taking it down is not timed
    if said != b"right":
        raise AssertionError("the first batch did not come, or is not what was made")


check = consume


def _take_first(answer: Iterator[Any], writing: int) -> NoReturn:
    try:
        if np.array_equal(np.asarray(next(answer)), batch_of(0)):
            os.write(writing, b"right")
        os.close(writing)
        answer.close()  # type: ignore[attr-defined]
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)

"""How fast does a plain Python function of each element (x * 2 on 64 floats) fill batches of 256?

A rival defines `run(array, **settings)`: an iterator of batches of 256 rows, for one pass, `double` being
called for each row.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from benchmarks.vectors import consume, prepare
from benchmarks.workloads import BATCH, Workload

FUNCTION = "run"
WORKLOADS = ("vectors",)
FILES = 1
BASES = ("bare_loop", "grain", "tf_data")

__all__ = ["BASES", "FILES", "FUNCTION", "WORKLOADS", "check", "consume", "double", "prepare"]


def double(x: NDArray) -> NDArray:
    return x * 2


def check(answer: Iterator[NDArray], workload: Workload) -> None:
    batches = [np.array(batch) for batch in answer]
    if {batch.shape for batch in batches} != {(BATCH, 64)}:
        raise AssertionError(f"batches have shapes { {batch.shape for batch in batches} }")
    if not np.array_equal(np.concatenate(batches), 2 * prepare(workload)):
        raise AssertionError("the batches are not the rows, doubled, in order")

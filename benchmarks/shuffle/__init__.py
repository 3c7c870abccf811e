"""How fast does an array of 100,000 small rows become shuffled batches of 256?

A rival defines `run(array, **settings)`: an iterator of batches of 256 rows, for one pass, shuffled over the
whole array.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from benchmarks.digest import digest
from benchmarks.vectors import consume, prepare
from benchmarks.workloads import BATCH, Workload

FUNCTION = "run"
WORKLOADS = ("vectors",)
FILES = 1
BASES = ("tf_data",)

__all__ = ["BASES", "FILES", "FUNCTION", "WORKLOADS", "check", "consume", "prepare"]


def check(answer: Iterator[NDArray], workload: Workload) -> None:
    """The untimed pass: every row once, and not in the order of the array."""
    batches = [np.array(batch) for batch in answer]
    if {batch.shape for batch in batches} != {(BATCH, 64)}:
        raise AssertionError(f"batches have shapes { {batch.shape for batch in batches} }")
    if sum(digest({"x": batch}) for batch in batches) % 2**64 != workload.digest:
        raise AssertionError("the batches do not hold each row of the array once")
    if np.array_equal(batches[0], prepare(workload)[:BATCH]):
        raise AssertionError("nothing was shuffled")

"""What one would write by hand: a loop, and np.stack for each batch."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from benchmarks.python_map import double
from benchmarks.workloads import BATCH

ROWS = {"bare_loop": [{}]}


def run(array: NDArray) -> Iterator[NDArray]:
    rows = []
    for x in array:
        rows.append(double(x))
        if len(rows) == BATCH:
            yield np.stack(rows)
            rows = []

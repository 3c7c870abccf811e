"""feedline: 2 workers, and as many as AUTOTUNE takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import feedline as fl
from benchmarks.slow_map import slow

ROWS = {"feedline": [{"calls": 2}], "feedline_autotune": [{"calls": fl.AUTOTUNE}]}


def run(count: int, calls: int) -> Iterator[Any]:
    return iter(fl.Dataset.range(count).map(slow, num_parallel_calls=calls))

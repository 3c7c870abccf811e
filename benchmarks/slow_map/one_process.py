"""A plain loop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.slow_map import slow

ROWS = {"one_process": [{}]}


def run(count: int) -> Iterator[Any]:
    return map(slow, range(count))

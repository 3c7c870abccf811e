"""Questions about one array of small rows share what a rival is given, and how its batches are taken in."""

from __future__ import annotations

from collections.abc import Iterator

from numpy.typing import NDArray

from benchmarks.workloads import Workload, columns


def prepare(workload: Workload) -> NDArray:
    return columns(workload.name, 0)["x"]


def consume(answer: Iterator[NDArray], workload: Workload) -> None:
    """The timed pass: count the rows, and look at two values of each batch, which costs nearly nothing."""
    rows = 0
    touched = 0.0
    for batch in answer:
        rows += len(batch)
        touched += batch[0, 0] + batch[-1, -1]
    if rows != workload.records:
        raise AssertionError(f"{rows} rows of {workload.records}")

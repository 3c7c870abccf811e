"""What does a consumer that sums every batch notice of the cache? The same arrays in memory are the measure.

A rival defines `epoch(workload, **settings)`, as for cache_epoch.
"""

from __future__ import annotations

from collections.abc import Iterator

from numpy.typing import NDArray

from benchmarks.cache_epoch import FILES, FUNCTION, WORKLOADS, check, prepare
from benchmarks.workloads import Workload

BASES = ("memory", "tf_file", "tf_memory")

__all__ = ["BASES", "FILES", "FUNCTION", "WORKLOADS", "check", "consume", "prepare"]


def consume(answer: Iterator[dict[str, NDArray]], workload: Workload) -> None:
    """The timed pass: every value of every array is looked at."""
    records, total = 0, 0.0
    for batch in answer:
        records += len(batch["label"])
        total += sum(float(array.sum()) for array in batch.values())
    if records != workload.records:
        raise AssertionError(f"{records} records of {workload.records}")

"""feedline with numbers of workers and depths of prefetching that a user might try."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import feedline as fl
from benchmarks.autotune import BATCH, Batches

ROWS = {
    "by_hand": [
        {"calls": calls, "prefetch": prefetch} for calls in (None, 1, 2, 3) for prefetch in (0, 2, 16)
    ]
}


def run(subject: tuple[Any, Callable[[Any], Any]], calls: int | None, prefetch: int) -> Batches:
    x, function = subject
    ds = fl.Dataset.from_tensor_slices(x).map(function, num_parallel_calls=calls)
    return iter(ds.batch(BATCH).prefetch(prefetch))

"""feedline with AUTOTUNE wherever it may stand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import feedline as fl
from benchmarks.autotune import BATCH, Batches

ROWS: dict[str, list[dict[str, Any]]] = {"autotune": [{}]}


def run(subject: tuple[Any, Callable[[Any], Any]]) -> Batches:
    x, function = subject
    ds = fl.Dataset.from_tensor_slices(x).map(function, num_parallel_calls=fl.AUTOTUNE)
    return iter(ds.batch(BATCH).prefetch(fl.AUTOTUNE))

"""feedline: a map in 2 worker processes, and a generator in each of 2."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import feedline as fl
from benchmarks.hand_over import Batch

ROWS = {"feedline": [{"generator": False}], "feedline_generator": [{"generator": True}]}


def run(subject: tuple[int, Callable[[Any], Batch]], generator: bool) -> Iterator[Batch]:
    count, batch_of = subject
    if not generator:
        return iter(fl.Dataset.range(count).map(batch_of, num_parallel_calls=2))

    def batches(shard: fl.Shard) -> Iterator[Batch]:
        for number in range(shard.index, count, shard.count):
            yield batch_of(number)

    return iter(fl.Dataset.from_generator(batches, workers=2))

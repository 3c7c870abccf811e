"""feedline: a map in 2 worker processes, and a generator in each of 2."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import feedline as fl

ROWS = {"feedline": [{"generator": False}], "feedline_generator": [{"generator": True}]}


def run(subject: tuple[int, Callable[[Any], Any]], generator: bool) -> Iterator[Any]:
    count, batch_of = subject

    def batches(shard: fl.Shard) -> Iterator[Any]:
        for number in range(shard.index, count, shard.count):
            yield batch_of(number)

    if generator:
        dataset = fl.Dataset.from_generator(batches, workers=2)
    else:
        dataset = fl.Dataset.range(count).map(batch_of, num_parallel_calls=2)
    with iter(dataset) as elements:
        yield from elements

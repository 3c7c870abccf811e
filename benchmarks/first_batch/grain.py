"""grain: mp_prefetch with 2 workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import grain.python as grain
from absl import flags

if not flags.FLAGS.is_parsed():
    flags.FLAGS.mark_as_parsed()  # grain's workers ask for them

ROWS = {"grain": [{}]}


def run(subject: tuple[int, Callable[[Any], Any]]) -> Iterator[Any]:
    count, batch_of = subject
    dataset = grain.MapDataset.range(count).map(batch_of).to_iter_dataset()
    yield from dataset.mp_prefetch(grain.MultiprocessingOptions(num_workers=2))

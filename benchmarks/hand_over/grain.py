"""grain: mp_prefetch with 2 workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import grain.python as grain
from absl import flags

from benchmarks.hand_over import Batch

if not flags.FLAGS.is_parsed():
    flags.FLAGS.mark_as_parsed()  # grain's workers ask for them

ROWS = {"grain": [{"buffer": 1}, {"buffer": 2}]}


def run(subject: tuple[int, Callable[[Any], Batch]], buffer: int) -> Iterator[Batch]:
    count, batch_of = subject
    dataset = grain.MapDataset.range(count).map(batch_of).to_iter_dataset()
    options = grain.MultiprocessingOptions(num_workers=2, per_worker_buffer_size=buffer)
    return iter(dataset.mp_prefetch(options))

"""grain: mp_prefetch with 2 workers: of whole batches, and of rows that batch() stacks in shared memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import grain.python as grain
from absl import flags

from benchmarks.hand_over import Batch

if not flags.FLAGS.is_parsed():
    flags.FLAGS.mark_as_parsed()  # grain's workers ask for them

ROWS = {
    "grain": [{"buffer": 1, "stacked": False}, {"buffer": 2, "stacked": False}],
    "grain_batch": [{"buffer": 1, "stacked": True}, {"buffer": 2, "stacked": True}],
}
WORKERS = 2


class RowOf:
    """A row of a batch, for batch() to stack. Of two workers, each gets every second number."""

    def __init__(self, batch_of: Callable[[Any], Batch], rows: int) -> None:
        self._batch_of, self._rows = batch_of, rows

    def __call__(self, number: Any) -> Batch:
        worker, place = int(number) % WORKERS, int(number) // WORKERS
        batch = self._batch_of(place // self._rows * WORKERS + worker)
        return {"x": rows_of(batch["x"])[place % self._rows], "number": batch["number"]}


def rows_of(x: Any) -> Any:
    return x if x.ndim > 1 else x.reshape(4, -1)


_iterators: dict[tuple[int, bool], Iterator[Batch]] = {}


def run(subject: tuple[int, Callable[[Any], Batch]], buffer: int, stacked: bool) -> Iterator[Batch]:
    count, batch_of = subject
    # One iterator for all passes: its workers stay, as feedline's do. Starting them anew takes seconds.
    if (buffer, stacked) not in _iterators:
        _iterators[buffer, stacked] = _endless(count, batch_of, buffer, stacked)
    batches = islice(_iterators[buffer, stacked], count)
    if not stacked:
        return batches
    shape = batch_of(0)["x"].shape
    return ({"x": batch["x"].reshape(shape), "number": batch["number"][0]} for batch in batches)


def _endless(count: int, batch_of: Callable[[Any], Batch], buffer: int, stacked: bool) -> Iterator[Batch]:
    options = grain.MultiprocessingOptions(num_workers=WORKERS, per_worker_buffer_size=buffer)
    if not stacked:
        whole = grain.MapDataset.range(count).repeat().map(batch_of)
        return iter(whole.to_iter_dataset().mp_prefetch(options))
    rows = len(rows_of(batch_of(0)["x"]))
    single = grain.MapDataset.range(count * rows).repeat().map(RowOf(batch_of, rows))
    # Directly under mp_prefetch, batch() stacks into shared memory.
    return iter(single.to_iter_dataset().batch(rows).mp_prefetch(options))

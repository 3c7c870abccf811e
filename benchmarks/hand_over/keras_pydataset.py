"""Keras: a PyDataset with 2 worker processes, as `model.fit` reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import keras
from keras.src.trainers.data_adapters.py_dataset_adapter import OrderedEnqueuer

from benchmarks.hand_over import Batch

ROWS = {"keras_pydataset": [{"queue": 4}, {"queue": 10}]}


class Batches(keras.utils.PyDataset):  # type: ignore[misc]
    def __init__(self, count: int, batch_of: Callable[[Any], Batch]) -> None:
        super().__init__()
        self._count, self._batch_of = count, batch_of

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> Batch:
        return self._batch_of(number)


def run(subject: tuple[int, Callable[[Any], Batch]], queue: int) -> Iterator[Batch]:
    count, batch_of = subject
    dataset = Batches(count, batch_of)
    enqueuer = OrderedEnqueuer(dataset, workers=2, use_multiprocessing=True, max_queue_size=queue)
    enqueuer.start()
    try:
        batches = enqueuer.get()
        for _ in range(count):
            yield next(batches)
    finally:
        enqueuer.stop()

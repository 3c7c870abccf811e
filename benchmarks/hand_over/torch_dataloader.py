"""torch: a DataLoader with 2 workers, which share tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from benchmarks.hand_over import Batch

ROWS = {"torch_dataloader": [{"prefetch": 2}, {"prefetch": 4}]}


class Batches(Dataset):  # type: ignore[misc,type-arg]
    def __init__(self, count: int, batch_of: Callable[[Any], Batch]) -> None:
        self._count, self._batch_of = count, batch_of

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> Any:
        batch = self._batch_of(number)
        return {"x": torch.from_numpy(batch["x"]), "number": int(batch["number"])}


_loaders: dict[int, Any] = {}


def run(subject: tuple[int, Callable[[Any], Batch]], prefetch: int) -> Iterator[Batch]:
    # One loader for all passes: its workers stay, as feedline's do.
    if prefetch not in _loaders:
        _loaders[prefetch] = DataLoader(
            Batches(*subject),
            batch_size=None,
            num_workers=2,
            prefetch_factor=prefetch,
            persistent_workers=True,
        )
    return iter(_loaders[prefetch])

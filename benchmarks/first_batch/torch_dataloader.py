"""torch: a DataLoader with 2 workers, which are spawned, or forked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

ROWS = {"torch_spawn": [{"start": "spawn"}], "torch_fork": [{"start": "fork"}]}


class Batches(Dataset):  # type: ignore[misc,type-arg]
    def __init__(self, count: int, batch_of: Callable[[Any], Any]) -> None:
        self._count, self._batch_of = count, batch_of

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> Any:
        return torch.from_numpy(self._batch_of(number))


def run(subject: tuple[int, Callable[[Any], Any]], start: str) -> Iterator[Any]:
    yield from DataLoader(Batches(*subject), batch_size=None, num_workers=2, multiprocessing_context=start)

"""torch: a DataLoader with 2 workers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch.utils.data import DataLoader, Dataset

from benchmarks.slow_map import slow

ROWS = {"torch_dataloader": [{"prefetch": 2}, {"prefetch": 8}]}


class Elements(Dataset):  # type: ignore[misc,type-arg]
    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> int:
        return int(slow(number))


_loaders: dict[int, Any] = {}


def run(count: int, prefetch: int) -> Iterator[Any]:
    if prefetch not in _loaders:
        _loaders[prefetch] = DataLoader(
            Elements(count), batch_size=None, num_workers=2, prefetch_factor=prefetch, persistent_workers=True
        )
    return iter(_loaders[prefetch])

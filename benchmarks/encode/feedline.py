"""feedline: a dict at a time, as a loop over samples would, and all columns at once."""

from __future__ import annotations

import feedline as fl
from benchmarks.workloads import Columns

ROWS = {"feedline_in_bulk": [{"bulk": True}], "feedline": [{"bulk": False}]}


def encode(columns: Columns, bulk: bool) -> list[bytes]:
    if bulk:
        return fl.example.encode_batch(columns)
    keys = list(columns)
    return [
        fl.example.encode(dict(zip(keys, row, strict=True))) for row in zip(*columns.values(), strict=True)
    ]

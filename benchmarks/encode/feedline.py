"""feedline: a dict at a time, as a loop over samples would, and all columns at once."""

from __future__ import annotations

from collections.abc import Iterator

import feedline as fl
from benchmarks.workloads import Columns

ROWS = {"feedline_in_bulk": [{"bulk": True}], "feedline": [{"bulk": False}]}


def encode(batches: list[Columns], bulk: bool) -> Iterator[list[bytes]]:
    for columns in batches:
        if bulk:
            yield fl.example.encode_batch(columns)
        else:
            rows = zip(*columns.values(), strict=True)
            yield [fl.example.encode(dict(zip(columns, row, strict=True))) for row in rows]

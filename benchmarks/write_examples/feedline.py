"""feedline: all columns of a batch at once, and a dict at a time."""

from __future__ import annotations

import feedline as fl
from benchmarks.workloads import Columns
from benchmarks.write_examples import Written

ROWS = {"feedline_in_bulk": [{"bulk": True}], "feedline": [{"bulk": False}]}


def write(batches: list[Columns], bulk: bool) -> Written:
    written = Written()
    with fl.TFRecordWriter(written.path) as writer:
        for columns in batches:
            if bulk:
                writer.write_batch(columns)
                continue
            for row in zip(*columns.values(), strict=True):
                writer.write(dict(zip(columns, row, strict=True)))
    return written

"""feedline: all columns of a batch at once, and a dict at a time."""

from __future__ import annotations

import feedline as fl
from benchmarks.write_examples import Subject

ROWS = {"feedline_in_bulk": [{"bulk": True}], "feedline": [{"bulk": False}]}


def write(subject: Subject, bulk: bool) -> str:
    with fl.TFRecordWriter(subject.path) as writer:
        for columns in subject.batches:
            if bulk:
                writer.write_batch(columns)
                continue
            for row in zip(*columns.values(), strict=True):
                writer.write(dict(zip(columns, row, strict=True)))
    return subject.path

"""feedline: with durable=False, and by default."""

from __future__ import annotations

import feedline as fl
from benchmarks.small_files import Task, Written

ROWS = {"feedline": [{"durable": False}], "feedline_durable": [{"durable": True}]}


def write(task: Task, durable: bool) -> Written:
    written = task.begin()
    for number, record in enumerate(task.records):
        with fl.TFRecordWriter(written.path(number), durable=durable) as writer:
            writer.write(record)
    return written

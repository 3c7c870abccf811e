"""feedline: with durable=False, and by default."""

from __future__ import annotations

import feedline as fl
from benchmarks.small_files import Written

ROWS = {"feedline": [{"durable": False}], "feedline_durable": [{"durable": True}]}


def write(records: list[bytes], durable: bool) -> Written:
    written = Written()
    for number, record in enumerate(records):
        with fl.TFRecordWriter(written.path(number), durable=durable) as writer:
            writer.write(record)
    return written

"""feedline: from one thread, and from four."""

from __future__ import annotations

from threading import Thread

import feedline as fl
from benchmarks.write_examples import Written

ROWS = {"feedline": [{"threads": 1}], "feedline_4_threads": [{"threads": 4}]}


def write(records: list[bytes], threads: int) -> Written:
    written = Written()
    size = len(records) // threads
    with fl.TFRecordWriter(written.path) as writer:
        producers = [
            Thread(target=_produce, args=(writer, records[at : at + size]))
            for at in range(0, len(records), size)
        ]
        for producer in producers:
            producer.start()
        for producer in producers:
            producer.join()
    return written


def _produce(writer: fl.TFRecordWriter, records: list[bytes]) -> None:
    for record in records:
        writer.write(record)

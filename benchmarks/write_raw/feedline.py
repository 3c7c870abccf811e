"""feedline: from one thread, and from four."""

from __future__ import annotations

from threading import Thread

import feedline as fl
from benchmarks.write_raw import Subject

ROWS = {"feedline": [{"threads": 1}], "feedline_4_threads": [{"threads": 4}]}


def write(subject: Subject, threads: int) -> str:
    with fl.TFRecordWriter(subject.path) as writer:
        producers = [
            Thread(target=_produce, args=(writer, subject.records[number::threads]))
            for number in range(1, threads)
        ]
        for producer in producers:
            producer.start()
        _produce(writer, subject.records[::threads] if threads > 1 else subject.records)
        for producer in producers:
            producer.join()
    return subject.path


def _produce(writer: fl.TFRecordWriter, records: list[bytes]) -> None:
    for record in records:
        writer.write(record)

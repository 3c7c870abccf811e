"""feedline: from one thread, and from four."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread

import feedline as fl
from benchmarks.write_examples import Written

ROWS = {"feedline": [{"threads": 1}], "feedline_4_threads": [{"threads": 4}]}


def write(parts: list[list[bytes]], threads: int) -> Written:
    written = Written()
    with fl.TFRecordWriter(written.path) as writer:
        write_from(threads, writer.write, parts)
    return written


def write_from(threads: int, write: Callable[[bytes], None], parts: list[list[bytes]]) -> None:
    """Call `write` for each record, in so many threads."""
    producers = [Thread(target=_produce, args=(write, parts[number::threads])) for number in range(threads)]
    for producer in producers:
        producer.start()
    for producer in producers:
        producer.join()


def _produce(write: Callable[[bytes], None], parts: list[list[bytes]]) -> None:
    for part in parts:
        for record in part:
            write(record)

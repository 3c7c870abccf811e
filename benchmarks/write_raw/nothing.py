"""A Python function that does nothing, called for each record: from one thread, and from four."""

from __future__ import annotations

from benchmarks.write_raw.feedline import write_from

ROWS = {"nothing": [{"threads": 1}], "nothing_4_threads": [{"threads": 4}]}


def write(parts: list[list[bytes]], threads: int) -> None:
    write_from(threads, _write, parts)


def _write(record: bytes) -> None:
    pass

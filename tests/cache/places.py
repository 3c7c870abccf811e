"""Locations with entries in them, and other processes that use them."""

from __future__ import annotations

import os
from contextlib import contextmanager

from feedline import Dataset
from feedline.cache.in_directory import DirectoryStore
from feedline.cache.store import opened
from tests.processes import start_python

# Opens an entry, says so, and stays until its stdin ends.
USER = """
import sys
from feedline.cache.in_directory import DirectoryStore
entry = DirectoryStore(sys.argv[1]).open(sys.argv[2])
print("open", flush=True)
sys.stdin.read()
"""


@contextmanager
def user_of(location, key):
    """A process that has the entry open."""
    with start_python(USER, str(location), key) as process:
        try:
            assert process.stdout.readline() == "open\n", process.stderr.read()
            yield process
        finally:
            process.kill()


def put_entry(location, key, size, *, used=None):
    """An entry with an item of that size. `used` is when it was used last."""
    with opened(DirectoryStore(location), key) as entry:
        entry.put("part-00000000", [bytes(size)])
    if used is not None:
        os.utime(location / key / "used", (used, used))


def run_indexed(location, rows=1000):
    return [int(x) for x in Dataset.range(rows).cache(location)]


def run_streamed(location, rows=1000):
    return [int(x) for x in Dataset.range(rows).filter(lambda x: x >= 0).cache(location)]

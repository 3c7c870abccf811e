"""The system calls for an atomic file, and no more."""

from __future__ import annotations

import os

from benchmarks.small_files import Task, Written
from feedline import _native

ROWS = {"limit": [{"durable": False}], "limit_durable": [{"durable": True}]}


def write(task: Task, durable: bool) -> Written:
    written = task.begin()
    hidden = f"{written.directory}/.partial"
    for number, record in enumerate(task.records):
        fd = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        os.write(fd, _native.frame(record))
        if durable:
            os.fsync(fd)
        os.rename(hidden, written.path(number))
        os.close(fd)
        if durable:
            fd = os.open(written.directory, os.O_RDONLY | os.O_DIRECTORY)
            os.fsync(fd)
            os.close(fd)
    return written

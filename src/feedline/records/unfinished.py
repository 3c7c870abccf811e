"""Sets that a ShardedWriter began in a directory and has not committed: for readers that find no files there.

`.<prefix>.writing-<id>/` holds what was written so far (write/staging), and `.<prefix>.lock` is locked while
the writer is alive (records/holder).
"""

from __future__ import annotations

import os
import re
import shlex
import time
from contextlib import suppress

from feedline.records.lock_file import holder_of

WRITER = "writer"  # a file in the directory of a run: who opened it


def unfinished(directory: str) -> str:
    """Lines for the end of an error: which sets were begun there, by whom, and what to do. Often none."""
    directory, told = directory or ".", ""
    with suppress(OSError):  # it would hide the error
        for name in sorted(os.listdir(directory)):
            begun = re.fullmatch(r"\.(.+)\.writing-[0-9a-f]{16}", name, re.DOTALL)
            if begun is not None:
                told += _tell(directory, begun[1], name)
    return told


def _tell(directory: str, prefix: str, name: str) -> str:
    alive = holder_of(os.path.join(directory, f".{prefix}.lock"))
    if alive is not None:
        return (
            f"\n  A ShardedWriter is writing a set with the prefix {prefix!r} there: {alive}."
            "\n  You can read it when that writer has committed it."
        )
    path = os.path.join(directory, name)
    option = "" if prefix == "data" else f", prefix={prefix!r}"
    return (
        f"\n  A set with the prefix {prefix!r} was begun there and never committed, by {_writer_of(path)}."
        f"\n  To complete it:  ShardedWriter({directory!r}{option}, resume=True)"
        f"\n  To remove it:    rm -r {shlex.quote(path)}"
    )


def _writer_of(path: str) -> str:
    try:
        with open(os.path.join(path, WRITER), encoding="utf-8", errors="replace") as file:
            return file.read(1000)
    except FileNotFoundError:  # it was killed before it said so
        since = time.localtime(os.path.getmtime(path))
        return f"a writer that was there at {time.strftime('%Y-%m-%d %H:%M:%S', since)}"

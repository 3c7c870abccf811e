"""How fast do batches of 256 come out of a cache, from the second epoch on?

A rival defines `epoch(workload, **settings)`: an iterator of batches for one epoch. The first call, which is
checked and not timed, fills the cache; later calls read it. Caches on disk lie in memory, for all.
"""

from __future__ import annotations

import atexit
import os
import shutil

from benchmarks.read_examples import check, consume, prepare

FUNCTION = "epoch"
WORKLOADS = ("img", "dense", "tab")
FILES = 4  # so that the slowest takes seconds
BASES = ("tf_file", "tf_memory")

__all__ = ["BASES", "FILES", "FUNCTION", "WORKLOADS", "check", "consume", "location", "prepare"]


def location() -> str:
    """A directory of this process's, removed when it ends."""
    path = f"/dev/shm/feedline-benchmark-{os.getpid()}"
    os.makedirs(path, exist_ok=True)
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path

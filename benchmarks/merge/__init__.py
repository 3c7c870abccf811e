"""How fast do many files become one, against `cat`?

A rival defines `merge(files, **settings) -> Joined`: a new file that holds the bytes of all. `cat` checks
nothing, and leaves it to the kernel when the bytes go to the disk; feedline checks every record, and its
file is on the disk when it appears, so there is a `cat` that waits for that too.
"""

from __future__ import annotations

import os
from hashlib import blake2b

from benchmarks.workloads import Workload, data_directory

FUNCTION = "merge"
WORKLOADS = ("img", "tab")
FILES = 16
BASES = ("cat", "cat, then sync")


class Joined:
    """A new file, which goes with its object: the harness drops that outside of the timing."""

    def __init__(self) -> None:
        self.path = str(data_directory() / f"merged-{os.getpid()}")

    def __del__(self) -> None:
        os.unlink(self.path)


def prepare(workload: Workload) -> tuple[str, ...]:
    return workload.files


def check(answer: Joined, workload: Workload) -> None:
    """The untimed pass: byte for byte the files, one behind the other."""
    if _digest(answer.path) != _digest(*workload.files):
        raise AssertionError(f"{answer.path} does not hold the bytes of the files")


def consume(answer: Joined, workload: Workload) -> None:
    size = os.path.getsize(answer.path)
    if size != workload.bytes:
        raise AssertionError(f"{size} bytes of {workload.bytes}")


def _digest(*paths: str) -> bytes:
    digest = blake2b()
    for path in paths:
        with open(path, "rb") as file:
            while piece := file.read(1 << 20):
                digest.update(piece)
    return digest.digest()

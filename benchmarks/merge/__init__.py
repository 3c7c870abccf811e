"""How fast do many files become one, against `cat`?

A rival defines `merge(files, path)`: a new file there that holds the bytes of all; it returns the path. `cat` checks
nothing; feedline checks every record. All files lie in memory (/dev/shm), so no disk is measured: feedline's file is
on it when it appears, and that of `cat` at some time later.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from hashlib import blake2b

from benchmarks.workloads import Workload

FUNCTION = "merge"
WORKLOADS = ("img", "tab")
FILES = 16
BASES = ("cat",)

Subject = tuple[list[str], str]


def prepare(workload: Workload) -> Subject:
    directory = tempfile.mkdtemp(dir="/dev/shm")
    atexit.register(shutil.rmtree, directory)
    return [shutil.copy(path, directory) for path in workload.files], os.path.join(directory, "merged")


def check(answer: str, workload: Workload) -> None:
    """The untimed pass: byte for byte the files, one behind the other."""
    if _digest(answer) != _digest(*workload.files):
        raise AssertionError(f"{answer} does not hold the bytes of the files")
    os.unlink(answer)


def consume(answer: str, workload: Workload) -> None:
    size = os.path.getsize(answer)
    os.unlink(answer)
    if size != workload.bytes:
        raise AssertionError(f"{size} bytes of {workload.bytes}")


def _digest(*paths: str) -> bytes:
    digest = blake2b()
    for path in paths:
        with open(path, "rb") as file:
            while piece := file.read(1 << 20):
                digest.update(piece)
    return digest.digest()

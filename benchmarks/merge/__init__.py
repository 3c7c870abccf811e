"""How fast do many files become one, against `cat`?

A rival defines `merge(files) -> Written`: a new file that holds the bytes of all. `cat` checks nothing;
feedline checks every record. All files lie in memory (/dev/shm), so no disk is measured: feedline's file is
on it when it appears, and that of `cat` at some time later.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from hashlib import blake2b

from benchmarks.workloads import Workload
from benchmarks.write_examples import Written

FUNCTION = "merge"
WORKLOADS = ("img", "tab")
FILES = 16
BASES = ("cat",)


def prepare(workload: Workload) -> list[str]:
    directory = tempfile.mkdtemp(dir="/dev/shm")
    atexit.register(shutil.rmtree, directory)
    return [shutil.copy(path, directory) for path in workload.files]


def check(answer: Written, workload: Workload) -> None:
    """The untimed pass: byte for byte the files, one behind the other."""
    if _digest(answer.path) != _digest(*workload.files):
        raise AssertionError(f"{answer.path} does not hold the bytes of the files")


def consume(answer: Written, workload: Workload) -> None:
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

"""How fast are many small TFRecord files written, of one record each?

A rival defines `write(records, **settings) -> Written`: it writes each record to a file of its own, all in
one new directory. That lies on the disk, beside the data of the other benchmarks.

Rows with `durable` wait until the disk has every file and its name (fsync); the others leave that to the
kernel, as tf.io does. `limit` makes the system calls that an atomic file takes, in a plain loop: a hidden
file is opened, written and renamed; with `durable`, the file and the directory are synced, too.
"""

from __future__ import annotations

import os
import shutil
import tempfile

import numpy as np

import feedline as fl
from benchmarks.workloads import Workload, data_directory

FUNCTION = "write"
WORKLOADS = ("bytes_100",)
FILES = 1
BASES = ("tf_record_writer", "limit_durable")
COUNT, SIZE = 1_000, 100


class Written:
    """A new directory, which goes with its object: the harness drops that outside of the timing."""

    def __init__(self) -> None:
        self.directory = tempfile.mkdtemp(dir=data_directory())

    def path(self, number: int) -> str:
        return f"{self.directory}/{number:05}.tfrecord"

    def __del__(self) -> None:
        shutil.rmtree(self.directory)


def load(name: str, files: int) -> Workload:
    data_directory().mkdir(parents=True, exist_ok=True)
    return Workload(name, (), COUNT, COUNT * SIZE, 0)


def prepare(workload: Workload) -> list[bytes]:
    random = np.random.default_rng(0).bytes(COUNT * SIZE)
    return [random[at : at + SIZE] for at in range(0, len(random), SIZE)]


def check(answer: Written, workload: Workload) -> None:
    if list(fl.records.read(answer.directory)) != prepare(workload):
        raise AssertionError("the files do not hold the records")


def consume(answer: Written, workload: Workload) -> None:
    """The timed pass ends with the last file."""
    if len(os.listdir(answer.directory)) != COUNT:
        raise AssertionError("there is not a file for each record")

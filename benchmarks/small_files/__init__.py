"""How fast are many small TFRecord files written, of one record each?

A rival defines `write(task, **settings) -> Written`: it writes each record of the task to a file of its own,
all in one new directory. That lies in memory (/dev/shm), which shows what the programs take, or on the disk,
beside the data of the other benchmarks.

Rows with `durable` wait until the disk has every file and its name (fsync); the others leave that to the
kernel, as tf.io does. `limit` makes the system calls that an atomic file takes, in a plain loop: a hidden
file is opened, written and renamed; with `durable`, the file and the directory are synced, too.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass

import numpy as np

import feedline as fl
from benchmarks.workloads import Workload, data_directory

FUNCTION = "write"
WORKLOADS = ("memory", "disk")
FILES = 1
BASES = ("tf_record_writer", "limit_durable")
COUNT, SIZE = 500, 100


class Written:
    """A new directory, which goes with its object: the harness drops that outside of the timing."""

    def __init__(self, parent: str) -> None:
        self.directory = tempfile.mkdtemp(prefix="feedline-benchmark-", dir=parent)

    def path(self, number: int) -> str:
        return f"{self.directory}/{number:05}.tfrecord"

    def __del__(self) -> None:
        shutil.rmtree(self.directory)


@dataclass(frozen=True)
class Task:
    records: list[bytes]
    parent: str

    def begin(self) -> Written:
        return Written(self.parent)


def load(name: str, files: int) -> Workload:
    return Workload(name, (), COUNT, COUNT * SIZE, 0)


def prepare(workload: Workload) -> Task:
    random = np.random.default_rng(0).bytes(COUNT * SIZE)
    records = [random[at : at + SIZE] for at in range(0, len(random), SIZE)]
    if workload.name == "memory":
        return Task(records, "/dev/shm")
    data_directory().mkdir(parents=True, exist_ok=True)
    return Task(records, str(data_directory()))


def check(answer: Written, workload: Workload) -> None:
    if list(fl.records.read(answer.directory)) != prepare(workload).records:
        raise AssertionError("the files do not hold the records")


def consume(answer: Written, workload: Workload) -> None:
    """The timed pass ends with the last file."""
    if len(os.listdir(answer.directory)) != COUNT:
        raise AssertionError("there is not a file for each record")

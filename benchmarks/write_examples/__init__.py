"""How fast do arrays in memory become a TFRecord file of tf.train.Examples?

A rival defines `write(subject, **settings)`: it writes a record for each row of `subject.batches`, which hold
256 rows of columns each, to a file at `subject.path`, and returns the path. The file lies in memory
(/dev/shm), so no disk is measured; whoever syncs files does it there, too.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import feedline as fl
from benchmarks import encode
from benchmarks.workloads import Columns, Workload

FUNCTION = "write"
WORKLOADS = ("dense",)
FILES = 1
BASES = ("tf_train_example",)


@dataclass(frozen=True)
class Subject:
    batches: list[Columns]
    path: str


def prepare(workload: Workload) -> Subject:
    return Subject(encode.prepare(workload), in_memory())


def in_memory() -> str:
    return f"/dev/shm/feedline-benchmark-{os.getpid()}.tfrecord"


def check(answer: str, workload: Workload) -> None:
    """The untimed pass: the file must hold what the columns held."""
    encode.check(iter([list(fl.records.read(answer))]), workload)
    os.unlink(answer)


def consume(answer: str, workload: Workload) -> None:
    """The timed pass ends with the file."""
    if os.path.getsize(answer) < workload.records:
        raise AssertionError("there is less than a byte for a record")
    os.unlink(answer)

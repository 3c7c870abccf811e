"""How fast do arrays in memory become a TFRecord file of tf.train.Examples?

A rival defines `write(batches, **settings) -> Written`: it writes a record for each row of the batches,
which hold 256 rows of columns each, to a new file. The file lies in memory (/dev/shm), so no disk is
measured; whoever syncs files does it there, too.
"""

from __future__ import annotations

import os
from itertools import count

import feedline as fl
from benchmarks import encode
from benchmarks.workloads import Columns, Workload

FUNCTION = "write"
WORKLOADS = ("dense",)
FILES = 1
BASES = ("tf_train_example", "tf_train_example_of_arrays", "limit")


_numbers = count()


class Written:
    """A place for a new file, which goes with its object: the harness drops that outside of the timing."""

    def __init__(self) -> None:
        self.path = f"/dev/shm/feedline-benchmark-{os.getpid()}-{next(_numbers)}"

    def __del__(self) -> None:
        os.unlink(self.path)


def prepare(workload: Workload) -> list[Columns]:
    return encode.prepare(workload)


def check(answer: Written, workload: Workload) -> None:
    """The untimed pass: the file must hold what the columns held."""
    encode.check(iter([list(fl.records.read(answer.path))]), workload)


def consume(answer: Written, workload: Workload) -> None:
    """The timed pass ends with the file."""
    if os.path.getsize(answer.path) < workload.bytes:
        raise AssertionError("there is less in the file than in the records")

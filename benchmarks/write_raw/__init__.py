"""How fast are small records written that are bytes already, one call for each?

A rival defines `write(subject, **settings)`: it writes all of `subject.records` to a file at `subject.path`,
and returns the path. They may come in another order when several threads write. The file lies in memory.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass

import numpy as np

import feedline as fl
from benchmarks.workloads import Workload
from benchmarks.write_examples import consume as consume
from benchmarks.write_examples import in_memory

FUNCTION = "write"
WORKLOADS = ("bytes_100",)
FILES = 1
BASES = ("tf_record_writer", "feedline")
COUNT, SIZE = 500_000, 100


@dataclass(frozen=True)
class Subject:
    records: list[bytes]
    path: str


def load(name: str, files: int) -> Workload:
    return Workload(name, (), COUNT, COUNT * SIZE, 0)


def prepare(workload: Workload) -> Subject:
    random = np.random.default_rng(0).bytes(COUNT * SIZE)
    return Subject([random[at : at + SIZE] for at in range(0, len(random), SIZE)], in_memory())


def check(answer: str, workload: Workload) -> None:
    if Counter(fl.records.read(answer)) != Counter(prepare(workload).records):
        raise AssertionError("the file does not hold the records")
    os.unlink(answer)

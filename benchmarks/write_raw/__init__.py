"""How fast are small records written that are bytes already, one call for each?

A rival defines `write(records, **settings) -> Written`: it writes all of the records to a new file, in
any order when several threads write. The file lies in memory.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

import feedline as fl
from benchmarks.workloads import Workload
from benchmarks.write_examples import Written
from benchmarks.write_examples import consume as consume

FUNCTION = "write"
WORKLOADS = ("bytes_100",)
FILES = 1
BASES = ("tf_record_writer", "feedline")
COUNT, SIZE = 500_000, 100


def load(name: str, files: int) -> Workload:
    return Workload(name, (), COUNT, COUNT * SIZE, 0)


def prepare(workload: Workload) -> list[bytes]:
    random = np.random.default_rng(0).bytes(COUNT * SIZE)
    return [random[at : at + SIZE] for at in range(0, len(random), SIZE)]


def check(answer: Written, workload: Workload) -> None:
    if Counter(fl.records.read(answer.path)) != Counter(prepare(workload)):
        raise AssertionError("the file does not hold the records")

"""How fast are small records written that are bytes already, one call for each?

A rival defines `write(parts, **settings) -> Written`: it writes the records of all parts, which are lists of
them, to a new file, in any order when several threads write. The file lies in memory. The parts are made
beforehand: to cut a list up takes longer the more parts there are, and is no writing.

`nothing` makes the same calls from the same threads, and writes nothing: what Python itself takes, and what
it loses when several threads share its lock.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain

import numpy as np

import feedline as fl
from benchmarks.workloads import Workload
from benchmarks.write_examples import Written
from benchmarks.write_examples import consume as check_size

FUNCTION = "write"
WORKLOADS = ("bytes_100",)
FILES = 1
BASES = ("tf_record_writer", "feedline", "nothing")
COUNT, SIZE, PARTS = 500_000, 100, 4


def load(name: str, files: int) -> Workload:
    return Workload(name, (), COUNT, COUNT * SIZE, 0)


def prepare(workload: Workload) -> list[list[bytes]]:
    random = np.random.default_rng(0).bytes(COUNT * SIZE)
    records = [random[at : at + SIZE] for at in range(0, len(random), SIZE)]
    return [records[part * COUNT // PARTS : (part + 1) * COUNT // PARTS] for part in range(PARTS)]


def check(answer: Written | None, workload: Workload) -> None:
    if answer is None:  # it is `nothing`
        return
    if Counter(fl.records.read(answer.path)) != Counter(chain(*prepare(workload))):
        raise AssertionError("the file does not hold the records")


def consume(answer: Written | None, workload: Workload) -> None:
    if answer is not None:
        check_size(answer, workload)

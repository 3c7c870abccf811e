"""How well do 2 worker processes share a function of 1 ms whose results are saved as TFRecords?

A rival defines `save(subject, **settings)`: it saves what `slow` makes of the numbers up to `subject.count`
as files in `subject.directory`, and returns it. The directory lies in memory.
"""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

import feedline as fl
from benchmarks.workloads import Workload

FUNCTION = "save"
WORKLOADS = ("elements",)
FILES = 1
BASES = ("one_process",)
COUNT = 2000


@dataclass(frozen=True)
class Subject:
    count: int
    directory: str


def load(name: str, files: int) -> Workload:
    return Workload(name, (), COUNT, 4 * 64 * COUNT, 0)


def prepare(workload: Workload) -> Subject:
    return Subject(workload.records, f"/dev/shm/feedline-benchmark-{os.getpid()}")


def slow(number: Any) -> Any:
    # Of this thread's own time: on a busy core, 1 ms by the clock would be less work.
    end = time.thread_time() + 0.001
    while time.thread_time() < end:
        pass
    return {"x": np.full(64, number, np.float32), "number": number}


def check(answer: str, workload: Workload) -> None:
    rows = fl.Dataset.from_tfrecords(answer, {"number": fl.FixedLenFeature([], "int64")})
    if [int(row["number"]) for row in rows] != list(range(workload.records)):
        raise AssertionError("the files do not hold the elements in their order")
    shutil.rmtree(answer)


def consume(answer: str, workload: Workload) -> None:
    shutil.rmtree(answer)

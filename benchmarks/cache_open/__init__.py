"""How long does it take to open a warm entry of 100 GB, up to its first element?

A rival defines `run(subject)`: a new dataset's first element. The entry is made of sparse files: its first
part is real, the others are holes of the same size. A pass counts as 1,000 records: "thousand records/s" is
one over the seconds.
"""

from __future__ import annotations

import atexit
import os
import shutil
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import feedline as fl
from benchmarks.workloads import Workload
from feedline.cache import plan as documents

FUNCTION = "run"
WORKLOADS = ("1 GB", "100 GB")
FILES = 1
BASES = ("feedline",)
ROW_BYTES = 4096


@dataclass(frozen=True)
class Subject:
    elements: int
    location: str

    def dataset(self) -> fl.Dataset:
        return fl.Dataset.range(self.elements).map(element).cache(self.location)


def element(number: Any) -> NDArray[np.uint8]:
    return np.full(ROW_BYTES, number % 251, np.uint8)


def load(name: str, files: int) -> Workload:
    return Workload(name, (), 1000, int(name.split()[0]) * 10**9, 0)


def prepare(workload: Workload) -> Subject:
    location = f"/dev/shm/feedline-benchmark-{os.getpid()}"
    atexit.register(shutil.rmtree, location, ignore_errors=True)
    subject = Subject(workload.bytes // ROW_BYTES, location)
    with iter(subject.dataset()) as rows:
        next(rows)
    (key,) = os.listdir(location)
    items = os.path.join(location, key, "items")
    with open(os.path.join(items, documents.PLAN), "rb") as file:
        data = file.read()
    plan = documents.decode(data, documents.Plan)
    assert plan.part_rows is not None
    assert plan.parts is not None
    size = os.path.getsize(os.path.join(items, documents.name_of(0)))
    for number in range(1, plan.parts):
        with open(os.path.join(items, documents.name_of(number)), "wb") as file:
            file.truncate(size)
    rows_of = [plan.part_rows] * plan.parts
    rows_of[-1] = subject.elements - (plan.parts - 1) * plan.part_rows
    with open(os.path.join(items, documents.MANIFEST), "wb") as file:
        file.write(documents.encode(documents.Manifest(documents.digest(data).hex(), tuple(rows_of))))
    return subject


def consume(answer: NDArray[np.uint8], workload: Workload) -> None:
    if answer.shape != (ROW_BYTES,) or answer.any():
        raise AssertionError("this is not the first element")


check = consume

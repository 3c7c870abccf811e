"""What does it cost to fill the cache, beside computing the elements?

    parse    images of TFRecord files, parsed by native code: less work than keeping them
    augment  the same, flipped and shifted by a NumPy function
    slow     a function that computes for 1 ms

A rival defines `run(subject, **settings)`: an iterator of batches of 256. Each pass begins with a cache that
is empty. It lies in memory, so that no disk is measured. `written` is no cache: it gives the kernel the bytes
of each batch, which is the least that any cache in files must do.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import workloads
from benchmarks.workloads import Workload

FUNCTION = "run"
WORKLOADS = ("parse", "augment", "slow")
FILES = 16
BASES = ("uncached", "written", "tf_data")
COUNTS = {"parse": 1.0, "augment": 0.25, "slow": 0.02}  # of the records


@dataclass(frozen=True)
class Subject:
    files: tuple[str, ...]
    kind: str
    count: int

    def location(self) -> str:
        """An empty directory."""
        path = f"/dev/shm/feedline-benchmark-{os.getpid()}"
        shutil.rmtree(path, ignore_errors=True)
        os.mkdir(path)
        return path


def load(name: str, files: int) -> Workload:
    source = workloads.load("img", files)
    part = COUNTS[name]
    return Workload(name, source.files, int(source.records * part), int(source.bytes * part), 0)


def prepare(workload: Workload) -> Subject:
    return Subject(workload.files, workload.name, workload.records)


def augment(row: dict[str, Any]) -> dict[str, Any]:
    """Of plain NumPy; about 30 microseconds."""
    picture = row["image"].reshape(32, 32, 3)[:, ::-1]
    shifted = np.roll(picture, 2, axis=0)
    return {"image": np.clip(shifted.astype(np.int16) + 10, 0, 255).astype(np.uint8), "label": row["label"]}


def slow(row: dict[str, Any]) -> dict[str, Any]:
    end = time.thread_time() + 0.001
    while time.thread_time() < end:
        pass
    return row


def consume(answer: Iterator[dict[str, NDArray]], workload: Workload) -> None:
    records = sum(len(batch["label"]) for batch in answer)
    if records != workload.records:
        raise AssertionError(f"{records} records of {workload.records}")
    shutil.rmtree(f"/dev/shm/feedline-benchmark-{os.getpid()}", ignore_errors=True)


check = consume

"""How long do 4 runs take that start at once on a cold cache, where an element takes 5 ms to compute?

    elements    numbers: an indexed input
    npz         interleaved npz files
    tfrecords   TFRecord files without an index
    chain       numbers, shuffled and filtered

A rival defines `run(kind, **settings)`: it starts the runs, each a process of its own that goes through all
elements of that kind, computed by 2 worker processes, and returns when all have ended. The 4 runs would be as
fast as one if sharing cost nothing: that is the measure.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.workloads import Workload, data_directory
from feedline import _native, example

FUNCTION = "run"
WORKLOADS = ("elements", "npz", "tfrecords", "chain")
FILES = 1
BASES = ("one_run",)
COUNT = 8_000  # 20 s: starting the processes of 4 runs is to be a small part of it
IN_FILE = 200


def load(name: str, files: int) -> Workload:
    return Workload(name, (), COUNT, 8 * 64 * COUNT, 0)


def prepare(workload: Workload) -> str:
    folder = data(workload.name)
    if workload.name in ("npz", "tfrecords") and not folder.exists():
        partial = folder.with_suffix(".partial")
        partial.mkdir(parents=True, exist_ok=True)
        for number in range(COUNT // IN_FILE):
            _write(partial / f"{number:04}.{workload.name}", number)
        partial.rename(folder)
    return workload.name


def _write(path: Path, number: int) -> None:
    rows = np.arange(number * IN_FILE, (number + 1) * IN_FILE)
    if path.suffix == ".npz":
        np.savez(path, n=rows)
    else:
        path.write_bytes(b"".join(_native.frame(example.encode({"n": row})) for row in rows))


def data(kind: str) -> Path:
    return data_directory() / f"cache-cold-{COUNT}-{kind}"


def slow(number: Any) -> Any:
    # Of this thread's own time: on a busy core, 5 ms by the clock would be less work.
    end = time.thread_time() + 0.005
    while time.thread_time() < end:
        pass
    return np.full(64, number, np.float64)


def consume(answer: list[float], workload: Workload) -> None:
    wanted = 64.0 * sum(range(workload.records))
    if set(answer) != {wanted}:
        raise AssertionError(f"runs summed up to {answer}, not to {wanted}")


def check(answer: list[float], workload: Workload) -> None:
    consume(answer, workload)

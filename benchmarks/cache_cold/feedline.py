"""feedline: one run, and 4 that share a cold cache.

python -m benchmarks.cache_cold.feedline KIND [LOCATION]      one of the runs
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from typing import Any

import numpy as np

import feedline as fl
from benchmarks.cache_cold import COUNT, data, slow

ROWS = {
    "one_run": [{"runs": 1, "shared": False}],
    "shared": [{"runs": 4, "shared": True}],
}


def run(kind: str, runs: int, shared: bool) -> list[float]:
    location = tempfile.mkdtemp(dir="/dev/shm")
    command = [sys.executable, "-m", __name__, kind, *([location] if shared else [])]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(runs)]
    try:
        return [float(process.communicate()[0]) for process in processes]
    finally:
        shutil.rmtree(location)


def numbers(kind: str) -> fl.Dataset:
    if kind == "npz":
        files = fl.Dataset.list_files(f"{data(kind)}/*.npz", shuffle=True, seed=1)
        return files.interleave(load, cycle_length=4)
    if kind == "tfrecords":
        features = {"n": fl.FixedLenFeature([], "int64")}
        return fl.Dataset.from_tfrecords(data(kind), features).map(lambda row: row["n"])
    if kind == "chain":
        return fl.Dataset.range(3 * COUNT).shuffle(1000, seed=1).filter(lambda n: n % 3 == 0).map(third)
    return fl.Dataset.range(COUNT)


def load(path: Any) -> fl.Dataset:
    with np.load(path) as file:
        return fl.Dataset.from_tensor_slices(file["n"])


def third(number: Any) -> Any:
    return number // 3


def main(kind: str, location: str = "") -> None:
    rows = numbers(kind).map(slow, num_parallel_calls=2)
    cached = rows.cache(location) if location else rows
    print(sum(float(batch.sum()) for batch in cached.batch(32)))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""feedline: one run, 4 that share a cold cache, and 4 that know nothing of each other.

python -m benchmarks.cache_cold.feedline COUNT [LOCATION]      one of the runs
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile

import feedline as fl
from benchmarks.cache_cold import slow

ROWS = {
    "one_run": [{"runs": 1, "shared": False}],
    "shared": [{"runs": 4, "shared": True}],
    "apart": [{"runs": 4, "shared": False}],
}


def run(count: int, runs: int, shared: bool) -> list[float]:
    location = tempfile.mkdtemp(dir="/dev/shm")
    command = [sys.executable, "-m", __name__, str(count), *([location] if shared else [])]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(runs)]
    try:
        return [float(process.communicate()[0]) for process in processes]
    finally:
        shutil.rmtree(location)


def main(count: int, location: str = "") -> None:
    rows = fl.Dataset.range(count).map(slow, num_parallel_calls=2)
    cached = rows.cache(location) if location else rows
    print(sum(float(batch.sum()) for batch in cached.batch(32)))


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])

"""feedline: one program alone, and 4 that share a reader service.

python -m benchmarks.service_shared.feedline COUNT [SOCKET]      one of the programs
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile

import feedline as fl
from benchmarks.service_shared import slow, start_service

ROWS = {"one_run": [{"programs": 1, "serves": False}], "service": [{"programs": 4, "serves": True}]}


def run(count: int, programs: int, serves: bool) -> list[float]:
    directory = tempfile.mkdtemp()
    path = os.path.join(directory, "service")
    service = start_service(path) if serves else None
    command = [sys.executable, "-m", __name__, str(count), *([path] if serves else [])]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(programs)]
    try:
        return [float(program.communicate()[0]) for program in started]
    finally:
        if service is not None:
            service.terminate()
            service.wait()
        shutil.rmtree(directory)


def main(count: str, path: str = "") -> None:
    rows = fl.Dataset.range(int(count)).map(slow).batch(32)
    served = rows.distribute(f"unix:{path}") if path else rows
    print(sum(float(batch.sum()) for batch in served))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""How much does it cost to serve 4 programs that run the same pipeline, of a function that computes for 1 ms?

A rival defines `run(count, **settings)`: it starts the programs, each a process that goes through all
elements, and what they need, and returns what each summed up when all have ended. If sharing cost nothing,
they would be as fast as one alone and take as much CPU.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from statistics import median
from typing import Any

import numpy as np

from benchmarks.report import Findings, best
from benchmarks.workloads import Workload

FUNCTION = "run"
WORKLOADS = ("elements",)
FILES = 1
BASES = ("one_run",)
COUNT = 16_000  # 16 s: starting the processes is to be a small part of it


def load(name: str, files: int) -> Workload:
    return Workload(name, (), COUNT, 8 * 64 * COUNT, 0)


def prepare(workload: Workload) -> int:
    return workload.records


def slow(number: Any) -> Any:
    # Of this thread's own time: on a busy core, 1 ms by the clock would be less work.
    end = time.thread_time() + 0.001
    while time.thread_time() < end:
        pass
    return np.full(64, number, np.float64)


def check(answer: list[float], workload: Workload) -> None:
    wanted = 64.0 * sum(range(workload.records))
    if set(answer) != {wanted}:
        raise AssertionError(f"programs summed up to {answer}, not to {wanted}")


consume = check


def cpu() -> float:
    """Seconds of CPU that all processes have taken so far which were started here and have ended."""
    used = os.times()
    return used.children_user + used.children_system


def notes(findings: Findings) -> Iterator[str]:
    """What the rates do not tell."""
    for rows in findings.values():
        base = best(rows["one_run"])[1].samples
        for row in sorted(set(rows) - {"one_run"}):
            pairs = zip(best(rows[row])[1].samples, base, strict=True)
            costs = [(one.cpu / len(one.passes)) / (alone.cpu / len(alone.passes)) for one, alone in pairs]
            span = f"({min(costs):.2f} .. {max(costs):.2f})"
            yield f"CPU of all processes together, {row} against one_run: **{median(costs):.2f}** {span}."


def start_service(path: str) -> subprocess.Popen[str]:
    """A reader service, once it listens."""
    command = [sys.executable, "-m", "feedline.cli", "serve", "--socket", path]
    service = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert service.stderr is not None
    service.stderr.readline()
    return service

"""Workers that are killed, in every phase, and owners that are: nothing is lost, repeated or left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from itertools import islice

import numpy as np
import pytest

from feedline import Dataset, WorkerDied
from tests.processes import comes_true, is_there, workers_of


@pytest.mark.parametrize("signal_", [signal.SIGKILL, signal.SIGSEGV], ids=lambda s: s.name)
def test_workers_killed_at_random_moments_change_nothing(signal_):
    def slow(x):
        end = time.perf_counter() + 0.001
        while time.perf_counter() < end:
            pass
        return {"x": np.full(2000, x), "text": f"number {x}"}

    rows = iter(Dataset.range(600).map(slow, 2))
    moments = np.random.default_rng(signal_).random(8) * 600
    kills = 0
    for number in range(600):
        element = next(rows)
        assert (element["x"] == number).all()
        assert element["text"] == f"number {number}".encode()
        if any(number <= moment < number + 1 for moment in moments):
            there = workers_of(os.getpid())  # without those that were just killed
            if there:
                os.kill(there[kills % len(there)], signal_)
                kills += 1
    assert next(rows, None) is None
    assert kills


def test_a_row_that_kills_its_worker_once_is_computed_again(tmp_path):
    def fragile(x):
        if x == 17 and not (tmp_path / "died").exists():
            (tmp_path / "died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return x

    assert [int(x) for x in Dataset.range(40).map(fragile, 2)] == list(range(40))


@pytest.mark.parametrize(
    ("end", "how"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "signal SIGKILL"),
        (lambda: os._exit(3), "exit code 3"),
        (lambda: os.abort(), "signal SIGABRT"),
    ],
    ids=["kill", "exit", "abort"],
)
def test_a_row_that_always_kills_its_worker_is_named(end, how):
    def fatal(x):
        if x == 33:
            end()
        return x

    rows = iter(Dataset.range(60).map(fatal, 2))
    assert [int(x) for x in islice(rows, 33)] == list(range(33))
    with pytest.raises(WorkerDied, match=how) as caught:
        next(rows)
    assert "map, added at" in str(caught.value)
    assert "at element 33 of its input" in "\n".join(caught.value.__notes__)
    assert [int(x) for x in rows] == list(range(34, 60))


OWNER = """
import sys, time
import feedline as fl

def endless(x):
    while x >= 100:
        pass
    return x

rows = iter(fl.Dataset.range(1000).map(endless, num_parallel_calls=2))
for _ in range(20):
    next(rows)
print("ready", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("signal_", [signal.SIGTERM, signal.SIGINT], ids=lambda s: s.name)
def test_workers_end_with_their_owner_whatever_they_are_doing(signal_):
    owner = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert owner.stdout.readline() == b"ready\n"
        workers = workers_of(owner.pid)
        assert len(workers) == 2
        owner.send_signal(signal_)
        owner.wait(200)
        assert comes_true(lambda: not any(map(is_there, workers)))
    finally:
        owner.kill()
        owner.wait()
        owner.stdout.close()


def test_a_function_that_never_returns_does_not_keep_the_next_iteration():
    def endless(x):
        while x == 5:
            pass
        return x

    ds = Dataset.range(40).map(endless, 2)
    for epoch in range(3):
        assert [int(x) for x in islice(ds, 4)] == [0, 1, 2, 3], epoch


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of what was being started
def test_interrupts_at_any_moment_lose_nothing_and_repeat_nothing():
    def slow(x):
        end = time.perf_counter() + 0.0005
        while time.perf_counter() < end:
            pass
        return x, np.full(500, x)

    rows = iter(Dataset.range(3000).map(slow, 2))
    moments = np.random.default_rng(1)
    found, interrupts = [], 0
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        while True:
            # Later and later: on a busy machine, workers may take longer to start than the first ones leave.
            signal.setitimer(signal.ITIMER_REAL, 0.3 + moments.random() / 2 + interrupts / 10)
            try:
                found.extend(rows)  # what came in front of an interrupt is kept
                break
            except KeyboardInterrupt:
                interrupts += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert [int(x) for x, _ in found] == list(range(3000))
    assert interrupts

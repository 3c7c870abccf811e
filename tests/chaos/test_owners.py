"""Owners of workers that are interrupted or killed, and that do several things at once: nothing is lost,
repeated or left behind."""

from __future__ import annotations

import gc
import json
import os
import random
import signal
import threading
import time
from itertools import islice

import numpy as np
import pytest

from feedline import Dataset
from tests.processes import (
    all_processes,
    children_of,
    comes_true,
    dismiss_workers,
    is_there,
    memory_of,
    resident,
    start_python,
    workers_of,
)

# It tells of each element that it has, and of each interrupt. An interrupt that comes when an element has
# been handed over, but is not in the list yet, is put off a little: it would be this program that loses it.
INTERRUPTED = """
import json, signal, sys, time
import numpy as np
import feedline as fl

def interrupt(number, frame):
    if frame.f_code.co_name in ("<genexpr>", "<module>"):
        signal.setitimer(signal.ITIMER_REAL, 0.0001)
    else:
        raise KeyboardInterrupt

signal.signal(signal.SIGINT, interrupt)
signal.signal(signal.SIGALRM, interrupt)

def slow(x):
    time.sleep(0.0005)
    return x, np.full(500, x)

def parts(shard):
    for x in range(shard.index, 2500, shard.count):
        yield slow(x)

kind, way = sys.argv[1:]
ds = fl.Dataset.range(2500).map(slow, 2) if kind == "map" else fl.Dataset.from_generator(parts, workers=2)
rows, found, interrupts = iter(ds), [], 0
print("ready", flush=True)
while True:
    try:
        if way == "state" and interrupts % 2:
            rows = iter(ds)
            rows.load_state_dict(state)
        found.extend(int(x) for x, _ in rows)
        break
    except KeyboardInterrupt:
        interrupts += 1
        try:
            state = rows.state_dict()
        except KeyboardInterrupt:
            state = rows.state_dict()
print(json.dumps([found == list(range(2500)), len(found), interrupts]))
"""


@pytest.mark.parametrize(("kind", "way"), [("map", "state"), ("generator", "the same iterator")])
def test_ctrl_c_at_any_moment_loses_nothing_and_repeats_nothing(kind, way):
    moments = random.Random(kind + way)
    with start_python(INTERRUPTED, kind, way) as owner:
        try:
            assert owner.stdout.readline() == "ready\n"
            sent = 0
            while sent < 8 and owner.poll() is None:
                time.sleep(0.1 + moments.random() / 5)
                owner.send_signal(signal.SIGINT)
                sent += 1
            told, errors = owner.communicate(timeout=200)
        finally:
            owner.kill()
    assert told, errors
    whole, count, interrupts = json.loads(told)
    assert (whole, count) == (True, 2500)
    assert interrupts > 2


def test_pipelines_of_several_threads_whose_workers_are_killed():
    def slow(x):
        time.sleep(0.002)
        return x, np.full(300, x)

    def parts(shard):
        for x in range(shard.index, 400, shard.count):
            yield slow(x)

    datasets = [Dataset.range(400).map(slow, 2), Dataset.from_generator(parts, workers=2)]
    found = [[] for _ in datasets]
    threads = [
        threading.Thread(target=one.extend, args=(ds,)) for one, ds in zip(found, datasets, strict=True)
    ]
    for thread in threads:
        thread.start()
    moments = random.Random(1)
    kills = 0
    for goal in (100, 250):  # twice, because a row that was killed three times is given up
        assert comes_true(lambda goal=goal: all(len(one) > goal for one in found))
        there = workers_of(os.getpid())
        if there:
            os.kill(moments.choice(there), signal.SIGKILL)
            kills += 1
    for thread in threads:
        thread.join(200)
    for one in found:
        assert [int(x) for x, _ in one] == list(range(400))
        assert all((row == x).all() for x, row in one)
    assert kills


def test_iterators_that_are_dropped_while_workers_die_leave_nothing():
    dismiss_workers()

    def slow(x):
        time.sleep(0.002)
        return np.full(100, x)

    def open_files():
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    before = open_files()
    for epoch in range(6):
        ds = Dataset.range(100).map(slow, 2)
        rows = iter(ds)
        assert [int(x[0]) for x in islice(rows, 10)] == list(range(10))
        there = workers_of(os.getpid())
        os.kill(there[epoch % len(there)], signal.SIGKILL)
        if epoch % 2:
            next(rows)
        del rows
    dismiss_workers()
    assert open_files() <= before
    assert comes_true(lambda: not workers_of(os.getpid()))


def test_a_generator_that_never_ends_stops_with_its_consumer(tmp_path):
    def endless(shard):
        try:
            while True:
                yield shard.index
        finally:
            (tmp_path / f"{shard.index} has ended").touch()

    with iter(Dataset.from_generator(endless, workers=2)) as rows:
        assert [int(x) for x in islice(rows, 6)] == [0, 1] * 3
    assert comes_true(lambda: len(list(tmp_path.iterdir())) == 2)


# Each phase ends in a wait that the test cuts short.
OWNER = """
import sys, time
import numpy as np
import feedline as fl

def ready():
    print("ready", flush=True)

def slow(x):
    while x == 300 and phase == "computing":
        pass
    return np.full(20_000, x)

class Slow:
    def __reduce__(self):
        return time.sleep, (60,)

def endless(shard):
    while True:
        yield np.full(20_000, shard.index)

def nested(x):
    rows = iter(fl.Dataset.range(1000).map(slow, num_parallel_calls=1))
    next(rows)
    time.sleep(60)

phase = sys.argv[1]
ds = fl.Dataset.range(1000).map(slow, num_parallel_calls=2)
if phase == "starting":
    import threading
    threading.Timer(0.05, ready).start()
    next(iter(ds))
elif phase == "sending its job":
    slowly = Slow()
    import threading
    threading.Timer(1, ready).start()
    list(ds.map(lambda x: slowly, num_parallel_calls=2))
elif phase == "computing":
    rows = iter(ds)
    for _ in range(20):
        next(rows)
    ready()
elif phase == "busy":
    for number, _ in enumerate(ds.repeat()):
        if number == 100:
            ready()
elif phase == "a generator":
    rows = iter(fl.Dataset.from_generator(endless, workers=2))
    next(rows)
    ready()
    list(rows)
elif phase == "idle":
    list(ds.take(10))
    ready()
elif phase == "workers of workers":
    import threading
    threading.Timer(3, ready).start()
    list(fl.Dataset.range(10).map(nested, num_parallel_calls=1))
elif phase == "keeping arrays":
    kept = list(ds)
    ready()
time.sleep(60)
"""
PHASES = [
    "starting",
    "sending its job",
    "computing",
    "busy",
    "a generator",
    "idle",
    "workers of workers",
    "keeping arrays",
]


def offspring_of(pid):
    children = children_of(pid)
    return [*children, *(one for child in children for one in offspring_of(child))]


@pytest.mark.parametrize("phase", PHASES)
def test_nothing_is_left_of_an_owner_that_is_killed_while(phase, tmp_path):
    shared = set(os.listdir("/dev/shm"))
    with start_python(OWNER, phase, cwd=tmp_path, env=os.environ | {"TMPDIR": str(tmp_path)}) as owner:
        try:
            assert owner.stdout.readline() == "ready\n"
            fewest = {"starting": 0, "workers of workers": 2}.get(phase, 1)
            assert comes_true(lambda: len(offspring_of(owner.pid)) >= fewest)
            assert comes_true(lambda: phase == "starting" or memory_of(offspring_of(owner.pid)))
            offspring = offspring_of(owner.pid)
            memory = memory_of([owner.pid, *offspring])
        finally:
            owner.kill()
        owner.wait(200)
        assert comes_true(lambda: not any(map(is_there, offspring)))
        assert comes_true(lambda: not memory & memory_of(all_processes()))
    # Other names there are of tests that run meanwhile.
    assert {name for name in os.listdir("/dev/shm") if "feedline" in name} <= shared
    assert list(tmp_path.iterdir()) == []


def test_two_hundred_epochs_hold_no_more_than_three():
    def parts(shard):
        yield from (np.full(1000, x) for x in range(shard.index, 20, shard.count))

    mapped = Dataset.range(40).map(lambda x: np.full(5000, x), 2).batch(4)
    datasets = [mapped, Dataset.from_generator(parts, workers=2)]

    def held():
        gc.collect()
        files = len(os.listdir("/proc/self/fd"))
        return files, len(os.listdir("/proc/self/task")), len(children_of(os.getpid()))

    for epoch in range(1, 201):
        for number, _ in enumerate(datasets[epoch % 2]):
            if epoch % 5 == 0 and number == 4:
                break
        if epoch == 3:
            before, memory = held(), resident()
    # A thread that was joined is in the kernel's list for a moment yet.
    assert comes_true(lambda: all(np.less_equal(held(), before))), (held(), before)
    assert resident() < memory + 10e6

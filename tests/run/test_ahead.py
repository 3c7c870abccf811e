"""How far steps work ahead: as far as it helps, and within the memory that they were given."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from feedline import AUTOTUNE, Dataset

MB = 1_000_000


def make(x):
    time.sleep(0.001)
    return np.full(MB, x, np.uint8)


def ahead_of(dataset, step):
    (row,) = [row for row in dataset.stats().rows if row.step.startswith(step)]
    return row.ahead


def test_prefetch_learns_to_bridge_gaps():
    def bursts():
        for number in range(120):
            if number % 12 == 0:
                time.sleep(0.1)
            yield np.full(MB, number, np.uint8)

    ds = Dataset.from_generator(bursts).prefetch(AUTOTUNE)
    for element in ds:
        time.sleep(0.005)  # slower than a burst, on a busy machine too
        assert element.shape == (MB,)
    assert ahead_of(ds, "prefetch") > 6 * MB


def test_prefetch_stays_small_where_nobody_waits():
    ds = Dataset.range(60).map(make).prefetch(AUTOTUNE)
    for _ in ds:
        time.sleep(0.01)
    assert 2 * MB <= ahead_of(ds, "prefetch") <= 12 * MB


@pytest.mark.parametrize("size", [AUTOTUNE, 50])
def test_prefetch_keeps_to_the_memory_limit(size):
    ds = Dataset.range(60).map(make).prefetch(size)
    ds = ds.with_options(memory_limit=16 * MB)
    for _ in ds:
        time.sleep(0.005)
    assert MB < ahead_of(ds, "prefetch") <= 16 * MB
    assert ds.stats().memory.most <= 16 * MB


def test_what_workers_hold_keeps_to_the_memory_limit():
    for limit, most in ((None, 20 * MB), ("5MB", 5 * MB)):
        ds = Dataset.range(60).map(make, 2).with_options(memory_limit=limit)
        assert [int(x[0]) for x in ds] == list(range(60))
        assert MB < ahead_of(ds, "map") <= most


def test_prefetch_leaves_a_consumer_alone_that_does_nothing_else():
    ds = Dataset.range(200).map(lambda x: threading.current_thread().name + " " * int(x)).prefetch(AUTOTUNE)
    # On a machine that stalls, it may look busy once: but not again and again.
    assert {b"MainThread"} in [{name.split()[0] for name in ds} for _ in range(5)]


def test_prefetch_begins_when_its_consumer_works():
    def name(x):
        time.sleep(0.001)
        return threading.current_thread().name

    found = []
    for one in Dataset.range(200).map(name).prefetch(AUTOTUNE):
        found.append(one)
        time.sleep(0.001)
    assert found[0] == b"MainThread"
    assert found[-1] == b"feedline-prefetch"

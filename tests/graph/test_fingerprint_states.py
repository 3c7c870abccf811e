"""Pipelines of one fingerprint have states that are good for each other.

A part of a streamed entry holds the state of the input after it, and any run of that fingerprint goes on from
there.
"""

from __future__ import annotations

import json

import pytest

import feedline as fl
from feedline import Dataset
from feedline.graph import Context, Cursor
from feedline.run import LocalServices
from feedline.testing import assert_same


def noisy(x):
    return x + fl.rng().random()


def is_kept(x):
    return x != 4


def inner(x):
    return Dataset.range(x, x + 4).map(noisy)


RANGE = Dataset.range(30)
STREAMED = RANGE.filter(is_kept)
SHUFFLED = RANGE.shuffle(7, seed=3)

# Each is put in between the first step and the last one.
RUN_OTHERWISE = {
    "prefetch": lambda ds: ds.prefetch(3),
    "prefetch of nothing": lambda ds: ds.prefetch(0),
    "prefetch if it pays": lambda ds: ds.prefetch(fl.AUTOTUNE),
    "options": lambda ds: ds.with_options(workers=0, deterministic=False, max_open_files=1),
    "little memory": lambda ds: ds.with_options(memory_limit=4096),
    "both": lambda ds: ds.with_options(memory_limit=4096).prefetch(2).prefetch(1),
}
BEFORE = {"indexed": RANGE, "streamed": STREAMED, "shuffled": SHUFFLED, "mapped": RANGE.map(noisy)}
AFTER = {
    "nothing": lambda ds: ds,
    "map": lambda ds: ds.map(noisy),
    "filter": lambda ds: ds.filter(is_kept),
    "batch": lambda ds: ds.batch(4),
    "shuffle": lambda ds: ds.shuffle(5, seed=1),
    "repeat": lambda ds: ds.repeat(2),
    "skip": lambda ds: ds.skip(3),
    "shard": lambda ds: ds.shard(2, 1),
    "take": lambda ds: ds.take(20),
    "enumerate": lambda ds: ds.enumerate(),
    "zip": lambda ds: Dataset.zip(ds, RANGE),
    "concatenate": lambda ds: ds.concatenate(ds),
    "window": lambda ds: ds.window(3).flat_map(lambda rows: rows),
    "interleave": lambda ds: ds.interleave(lambda x: inner(int(x)), cycle_length=2),
}

# The same step, told to run in another way.
TOLD_OTHERWISE = {
    "map in threads": (
        RANGE.map(noisy),
        RANGE.map(noisy, num_parallel_calls=2, executor="thread"),
    ),
    "map in processes": (STREAMED.map(noisy), STREAMED.map(noisy, num_parallel_calls=2)),
    "map in processes by number": (RANGE.map(noisy), RANGE.map(noisy, num_parallel_calls=2)),
    "workers": (STREAMED.map(noisy), STREAMED.map(noisy).with_options(workers=2)),
    "interleave in processes": (
        RANGE.interleave(inner, cycle_length=3),
        RANGE.interleave(inner, cycle_length=3, num_parallel_calls=2),
    ),
    "ignore_errors": (
        STREAMED.map(noisy).ignore_errors(),
        STREAMED.map(noisy).ignore_errors(log_warning=True),
    ),
}


def opened(dataset, state=None):
    return Cursor(Context(LocalServices()), dataset._node, state)


def elements(cursor):
    blocks = list(iter(lambda: cursor.take(7), None))
    cursor.close()
    return [block.row(row) for block in blocks for row in range(block.rows)]


def assert_states_are_shared(one, other):
    assert one.fingerprint() == other.fingerprint()
    wanted = elements(opened(one))
    for giver, taker in ((one, other), (other, one)):
        cursor, states = opened(giver), []
        for _ in range(len(wanted) + 1):
            states.append(json.loads(json.dumps(cursor.state())))
            if cursor.peek(6) is not None:  # so that states are taken inside of blocks, too
                cursor.advance(1)
        cursor.close()
        for taken in range(0, len(states), max(1, len(states) // 6)):
            assert_same(elements(opened(taker, states[taken])), wanted[taken:], f"after {taken}")


@pytest.mark.parametrize("after", AFTER.values(), ids=AFTER)
@pytest.mark.parametrize("before", BEFORE.values(), ids=BEFORE)
def test_states_are_the_same_with_and_without_steps_that_do_not_count(before, after):
    for run in RUN_OTHERWISE.values():
        assert_states_are_shared(after(before), after(run(before)))


@pytest.mark.parametrize(("one", "other"), TOLD_OTHERWISE.values(), ids=TOLD_OTHERWISE)
def test_states_are_the_same_however_a_step_is_run(one, other):
    assert_states_are_shared(one.filter(is_kept), other.filter(is_kept))


def test_states_are_the_same_wherever_a_cache_is_kept(tmp_path):
    for source in (RANGE, STREAMED):
        one, other = (source.cache(tmp_path / name).filter(is_kept) for name in ("one", "other"))
        assert_states_are_shared(one, other)

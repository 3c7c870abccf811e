"""prefetch."""

from __future__ import annotations

import threading
import time

import pytest

from feedline import AUTOTUNE, Dataset, UsageError
from feedline.testing import check_errors, check_laws
from tests.ops.sources import every_source
from tests.tfdata import both, both_refuse

SIZES = (0, 1, 2, 100, AUTOTUNE)


@pytest.mark.parametrize("size", [*SIZES, None])
def test_prefetch_changes_nothing(size):
    both(lambda D: D.range(3).prefetch(size))
    both(lambda D: D.range(0).prefetch(size))
    both(lambda D: D.range(9).filter(lambda x: x % 2 == 0).prefetch(size).batch(2))
    both(lambda D: D.range(9).batch(2).prefetch(size).repeat(2).prefetch(size))


@every_source
def test_prefetch_obeys_the_laws(source):
    check_laws(lambda ds: ds.prefetch(2), source)


@pytest.mark.parametrize("size", SIZES)
def test_prefetch_obeys_the_laws_for_every_size(size):
    check_laws(lambda ds: ds.prefetch(size), Dataset.range(9))
    check_laws(lambda ds: ds.prefetch(size).batch(2).prefetch(size), Dataset.range(9))
    check_laws(lambda ds: ds.prefetch(size).repeat(2), Dataset.range(4).shuffle(3, seed=1))


@pytest.mark.parametrize("size", SIZES)
def test_errors_come_in_their_place(size):
    events = check_errors(lambda ds: ds.prefetch(size), Dataset.range(12))
    assert events[:4] == [("failed", "element 0"), ("element", 1), ("element", 2), ("failed", "element 3")]


def test_the_thread_runs_ahead_but_not_for_ever():
    seen = []
    with iter(Dataset.range(1000).map(lambda x: seen.append(int(x)) or x).prefetch(8)) as rows:
        assert next(rows) == 0
        until = time.monotonic() + 200
        while len(seen) < 8 and time.monotonic() < until:
            time.sleep(0.001)
        time.sleep(0.02)
        assert 8 <= len(seen) <= 24


def test_the_steps_before_run_in_another_thread():
    names = list(Dataset.range(2).map(lambda x: threading.current_thread().name).prefetch(1))
    assert names == [b"feedline-prefetch"] * 2


def test_an_error_at_opening_arrives():
    class Bad:
        def __call__(self, x):
            return Dataset.range(0, 5, 0)

    with pytest.raises(UsageError, match="step must not be 0"):
        list(Dataset.range(2).flat_map(Bad()).prefetch(2))


@pytest.mark.parametrize("size", [-2, "2"])
def test_prefetch_refuses_what_tf_data_refuses(size):
    both_refuse(lambda D: D.range(3).prefetch(size))


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (-2, "prefetch(buffer_size=-2): buffer_size must be 0 or more, or AUTOTUNE (-1)."),
        (1.5, "prefetch(buffer_size=1.5): buffer_size must be an int, not float."),
    ],
)
def test_prefetch_says_what_is_wrong(size, text):
    with pytest.raises(UsageError) as caught:
        Dataset.range(3).prefetch(size)
    assert str(caught.value) == text

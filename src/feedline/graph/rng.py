"""rng: random numbers inside of a mapped function, the same however the work is shared out."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence, Sized
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from feedline.errors import UsageError


class Draws(NamedTuple):
    """What the numbers of a step in one iteration depend on, beside the seed and the element."""

    step: int  # how many are before it, so that two steps do not draw the same
    epoch: tuple[int, ...]


def rng(seed: int = 0) -> np.random.Generator:
    """A generator for the element that is being mapped; called again for the same element, it goes on.

    Its numbers depend on `seed`, on the epoch and on the number of the element, and not on which process or
    thread is at work, nor on whether the iteration was interrupted and resumed.

    >>> import feedline as fl
    >>> noisy = fl.Dataset.range(3).map(lambda x: x + fl.rng().normal())
    >>> parallel = fl.Dataset.range(3).map(lambda x: x + fl.rng().normal(), num_parallel_calls=2)
    >>> list(noisy) == list(parallel)
    True
    """
    calls = _now.calls
    if calls is None:
        raise UsageError(
            "rng(): there is no element whose number it could depend on.\n"
            "  Call it inside of a function that map() calls; elsewhere, np.random.default_rng(seed) serves."
        )
    return calls.generator(seed)


class _Calls:
    """The calls of a function for one row after another."""

    def __init__(self, draws: Draws, numbers: Sequence[int], done: Sized) -> None:
        self._draws = draws
        self._numbers = numbers
        self._done = done  # the results so far, which tell the row
        self._row = -1
        self._made: dict[int, np.random.Generator] = {}  # for this row, by seed

    def generator(self, seed: int) -> np.random.Generator:
        if self._row != len(self._done):
            self._row = len(self._done)
            self._made = {}
        if seed not in self._made:
            entropy = [seed, self._draws.step, int(self._numbers[self._row]), *self._draws.epoch]
            self._made[seed] = np.random.default_rng(entropy)
        return self._made[seed]


class _Now(threading.local):
    calls: _Calls | None = None


_now = _Now()


@contextmanager
def drawing(draws: Draws, numbers: Sequence[int], done: Sized) -> Iterator[None]:
    """While it lasts, `rng` is for the element whose number comes after those that are done."""
    before, _now.calls = _now.calls, _Calls(draws, numbers, done)
    try:
        yield
    finally:
        _now.calls = before

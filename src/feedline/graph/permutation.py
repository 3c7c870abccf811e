"""A random order of 0 to count - 1 that is computed, not stored: each number in it depends on a key alone.

Few numbers are shuffled outright. Many are written as pairs (high, low), each half with about the square root
of `count` values, and go through a Feistel network: each round moves one half by a random function of the
other, which could be undone and is therefore one-to-one. There may be a few more pairs than numbers: what
lands on one of those goes through the network again, until it lands on a number.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from math import isqrt
from typing import Any, TypeAlias

import numpy as np

from feedline import _native
from feedline.graph.stream import Indices

_Words: TypeAlias = np.ndarray[Any, np.dtype[np.uint64]]

# On few pairs a network is not random enough, and an order of so many costs little.
_STORED = 1 << 14
# Numbers that were side by side still are after 2 rounds with a chance of 1 : sqrt(count); after 4, a third
# more of them are than by chance. After 6, nothing of it is seen in the orders of thousands of keys.
_ROUNDS = 6
_HALF = np.uint64(32)


class Permutation:
    """Of the numbers 0 to count - 1.

    >>> order = Permutation(key=7, count=5)
    >>> sorted(order.at(np.arange(5)).tolist())
    [0, 1, 2, 3, 4]
    """

    def __init__(self, key: int, count: int) -> None:
        self._count = count
        self._order = _shuffled(key, count) if count <= _STORED else None
        if self._order is None:
            self._sides = _sides(count)
            self._round_keys = _round_keys(key)

    def at(self, indices: Indices) -> Indices:
        """The numbers at these places of the order."""
        if self._order is not None:
            return self._order[indices]
        numbers = self._mixed(indices.astype(np.uint64))
        while len(outside := np.flatnonzero(numbers >= self._count)):
            numbers[outside] = self._mixed(numbers[outside])
        return numbers.view(np.int64)

    def _mixed(self, numbers: _Words) -> _Words:
        """Every step is done in place: with a thousand indices, half of the time would go into new arrays."""
        (one_side, other_side), width = self._sides, self._sides[1]
        one = numbers // width
        other = numbers - one * width
        move, spare = np.empty_like(one), np.empty_like(one)
        for factor, addend, mixer in self._round_keys:
            # `move`: 32 random bits for each value of `other`, scaled to less than `one_side`.
            np.multiply(other, factor, out=move)
            np.add(move, addend, out=move)
            np.right_shift(move, _HALF, out=spare)
            np.bitwise_xor(move, spare, out=move)
            np.multiply(move, mixer, out=move)
            np.right_shift(move, _HALF, out=move)
            np.multiply(move, one_side, out=move)
            np.right_shift(move, _HALF, out=move)
            np.add(one, move, out=one)
            # Modulo `one_side`: below zero the difference wraps round, and is the larger one.
            np.subtract(one, one_side, out=spare)
            np.minimum(one, spare, out=one)
            one, other, one_side, other_side = other, one, other_side, one_side
        return one * width + other  # the number of rounds is even


@lru_cache(maxsize=8)
def _shuffled(key: int, count: int) -> Indices:
    return _native.draw(key, 0, np.arange(count), count, count, count, count)[0]


@lru_cache
def _sides(count: int) -> tuple[np.uint64, np.uint64]:
    """Two numbers of about the same size, whose product is `count` or hardly more."""
    root = isqrt(count - 1) + 1
    one = min(range(root, root + 64), key=lambda side: -count % side)
    return np.uint64(one), np.uint64(-(-count // one))


def _round_keys(key: int) -> list[tuple[np.uint64, np.uint64, np.uint64]]:
    stream = hashlib.shake_128(key.to_bytes(8, "little")).digest(24 * _ROUNDS)
    words = np.frombuffer(stream, "<u8").astype(np.uint64).reshape(_ROUNDS, 3)
    odd = np.uint64(1)
    return [(factor | odd, addend, mixer | odd) for factor, addend, mixer in words]

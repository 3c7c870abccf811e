"""Keys for random numbers, from a seed and the numbers of the iteration: the same everywhere and for ever."""

from __future__ import annotations

import hashlib


def key_of(seed: int, epoch: tuple[int, ...]) -> int:
    """64 bits that look random, and differ for every seed and epoch.

    >>> key_of(1, (0,)) == key_of(1, (0,)), key_of(1, (0,)) == key_of(1, (1,))
    (True, False)
    """
    text = ",".join(map(str, (seed, *epoch)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")

"""How many elements: a count, INFINITE or UNKNOWN; the numbers are tf.data's."""

from __future__ import annotations

INFINITE = -1
UNKNOWN = -2


def apply(cardinality: int, count: int) -> int:
    """What `cardinality` becomes where `count` belongs to finite ones."""
    return cardinality if cardinality < 0 else count


def total(parts: list[int]) -> int:
    """Of the parts one after another.

    >>> total([2, 3]), total([2, UNKNOWN]), total([UNKNOWN, INFINITE])
    (5, -2, -1)
    """
    if INFINITE in parts:
        return INFINITE
    return UNKNOWN if UNKNOWN in parts else sum(parts)


def least(parts: list[int]) -> int:
    """Of the parts side by side, until the first ends.

    >>> least([2, INFINITE]), least([2, UNKNOWN]), least([INFINITE])
    (2, -2, -1)
    """
    finite = [part for part in parts if part != INFINITE]
    if not finite:
        return INFINITE
    return UNKNOWN if UNKNOWN in finite else min(finite)

"""Telling chance from design: how far counts are from what was expected of them."""

from __future__ import annotations

from typing import Any

import numpy as np


def surprise(counts: Any, expected: Any) -> float:
    """The chi-square statistic of counts, in standard deviations from what chance gives; below 4 is chance.

    Nothing may be counted where nothing was expected. `expected` may be any multiple of what is.

    >>> surprise([25, 25, 30, 20], [1, 1, 1, 1]) < 1 < 4 < surprise([40, 10, 40, 10], [1, 1, 1, 1])
    True
    """
    counts, expected = np.ravel(counts), np.ravel(expected).astype(float)
    assert not counts[expected == 0].any(), "counted, where nothing can be"
    counts, expected = counts[expected > 0], expected[expected > 0]
    expected *= counts.sum() / expected.sum()
    assert expected.min() >= 4, f"too few were counted: {expected.min():.1f} expected at least"
    freedom = len(counts) - 1
    statistic = float(((counts - expected) ** 2 / expected).sum())
    spread = 2 / (
        9 * freedom
    )  # of the third root, which has nearly a normal distribution (Wilson, Hilferty 1931)
    return abs((statistic / freedom) ** (1 / 3) - (1 - spread)) / spread**0.5

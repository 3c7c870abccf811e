"""How long work is done before its results are handed on."""

from __future__ import annotations

import time
from collections.abc import Callable

SECONDS = 0.01
"""That the rows of a task should take. Then neither sending them matters, nor waiting for the last."""

MOST_SECONDS = 0.05
"""After which a task that takes longer is cut short."""


def deadline(seconds: float) -> Callable[[], bool]:
    """Tells when so much time has gone by."""
    end = time.perf_counter() + seconds
    return lambda: time.perf_counter() > end

"""How long work is done before its results are handed on."""

from __future__ import annotations

import time
from collections.abc import Callable

SECONDS = 0.06
"""That the rows of a task should take: some hundred times what it costs to send and to receive them."""

MOST_SECONDS = 0.2
"""After which a task that takes longer is cut short."""


def deadline(seconds: float) -> Callable[[], bool]:
    """Tells when so much time has gone by."""
    end = time.perf_counter() + seconds
    return lambda: time.perf_counter() > end

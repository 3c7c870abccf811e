"""Counts and how fast they grow, for the status of the service."""

from __future__ import annotations

import time
from collections import deque

_SPAN = 5.0  # seconds that a rate looks back


class Rate:
    """A count, and how fast it has grown lately."""

    def __init__(self) -> None:
        self.total = 0
        self._seen: deque[tuple[float, int]] = deque([(time.monotonic(), 0)])

    def add(self, count: int) -> None:
        self.total += count

    def per_second(self) -> float:
        now = time.monotonic()
        self._seen.append((now, self.total))
        while len(self._seen) > 2 and now - self._seen[0][0] > _SPAN:
            self._seen.popleft()
        since, count = self._seen[0]
        return (self.total - count) / max(now - since, 1e-9)

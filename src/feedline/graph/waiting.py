"""Waits that end when nobody needs their result any more.

A thread that runs ahead for someone says so with `stoppable`: then a `pause` in it ends by `Stopped` as soon
as it is told to stop. Elsewhere a pause is a sleep, which Ctrl-C ends.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Stopped(BaseException):
    """Nobody reads on."""


class _Now(threading.local):
    is_stopped: Callable[[], bool] | None = None


_now = _Now()


@contextmanager
def stoppable(is_stopped: Callable[[], bool]) -> Iterator[None]:
    """While it lasts, pauses of this thread ask."""
    before, _now.is_stopped = _now.is_stopped, is_stopped
    try:
        yield
    finally:
        _now.is_stopped = before


def pause(seconds: float) -> None:
    if _now.is_stopped is not None and _now.is_stopped():
        raise Stopped
    time.sleep(seconds)

"""Iterations that a framework's threads run: they end before the interpreter does.

Where a program ends in the middle of a training, by an error or by sys.exit, TensorFlow's threads go on
asking for elements. One that asks when Python has begun to end never gets its lock, and TensorFlow, which
waits for that thread, never lets the process go.
"""

from __future__ import annotations

import atexit
import time
from collections.abc import Generator
from contextlib import closing
from typing import TypeVar

from feedline.tracebacks import hide_frames

_T = TypeVar("_T")

_QUIET = 0.2  # seconds in which nobody asks: the thread is out of Python, and has as much as it wants
_PATIENCE = 10.0  # seconds, for a function that is at work

_working: set[object] = set()  # iterations that are asked for an item just now
_rested_at = 0.0  # when one was given last
_is_ending = False


def until_exit(items: Generator[_T]) -> Generator[_T]:
    """The items, as long as the program does not end."""
    this = object()
    _working.add(this)
    try:
        with closing(items):
            for item in items:
                _rest(this)
                yield item
                _working.add(this)
                if _is_ending:
                    return
    except hide_frames():
        raise
    finally:
        _rest(this)


def _rest(iteration: object) -> None:
    global _rested_at
    _rested_at = time.monotonic()
    _working.discard(iteration)


@atexit.register
def _end() -> None:
    global _is_ending
    _is_ending = True
    until = time.monotonic() + _PATIENCE
    while (_working or time.monotonic() - _rested_at < _QUIET) and time.monotonic() < until:
        time.sleep(0.01)

"""Threads that wrote and then died by an exception: their writers hear of it.

Python calls threading.excepthook in the dying thread. While a writer is open, a hook of ours is in front of
the one that was there; it tells the writers that this thread has written to, and then calls that one. Others
may replace the hook meanwhile: one that calls its predecessor keeps ours working, and ours is removed only
where it is still the first.

Threads of executors and pools do not die: their exceptions are in the futures. Writers have producer() for
those.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from traceback import format_exception_only
from typing import Any, Protocol
from weakref import ref

_MOST_TOLD = 500  # characters of an exception


class Writer(Protocol):
    def wrote_here(self) -> bool:
        """Has the calling thread written?"""
        ...

    def thread_died(self, who: str, error: str) -> None:
        """The calling thread is about to end by an exception. It may be told more than once."""
        ...


class Wrote(threading.local):
    """Has this thread written? Unlike the ident of a thread, it is never true of a later thread."""

    here = False

    def is_here(self) -> bool:
        return self.here


Watch = ref[Writer]


def watch(writer: Writer) -> Watch:
    """Let the writer hear of threads that die, until unwatch()."""
    watching = ref(writer, _watches.discard)
    _watches.add(watching)
    _install()
    return watching


def unwatch(watching: Watch) -> None:
    _watches.discard(watching)
    if not _watches:
        while isinstance(threading.excepthook, _Hook):
            threading.excepthook = threading.excepthook.previous
        if _watches:  # another thread began to watch just then, and may have found the hook in place
            _install()


def describe(error: BaseException) -> str:
    """Without a full stop, because it comes in the middle of a sentence.

    >>> describe(ValueError("There is no such image."))
    'ValueError: There is no such image'
    """
    return "".join(format_exception_only(error)).strip()[:_MOST_TOLD].rstrip(".")


class _Hook:
    def __init__(self, previous: Callable[[Any], Any]) -> None:
        self.previous = previous

    def __call__(self, args: threading.ExceptHookArgs) -> None:
        try:
            if args.exc_type is not SystemExit:  # sys.exit() ends a thread on purpose
                _tell(args)
        finally:
            self.previous(args)


def _tell(args: threading.ExceptHookArgs) -> None:
    who = f"thread {threading.current_thread().name!r}"
    error = describe(args.exc_type() if args.exc_value is None else args.exc_value)
    for watching in tuple(_watches):
        writer = watching()
        if writer is not None and writer.wrote_here():
            writer.thread_died(who, error)


def _install() -> None:
    if not isinstance(threading.excepthook, _Hook):
        # A new one each time: if a hook in front of an older one of ours calls that, nothing goes in circles.
        threading.excepthook = _Hook(threading.excepthook)


_watches: set[Watch] = set()

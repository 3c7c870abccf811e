"""Short tracebacks: an error that leaves feedline shows the user's frames, and not feedline's own.

A public entry point guards its work with a clause that catches nothing:

    try:
        return self._next_block()
    except hide_frames():
        raise

Python evaluates `hide_frames()` only when an error passes, so the good path costs nothing. The clause does
not match, so the error goes on with the traceback that `hide_frames` left. A clause that caught the error and
raised it again would add the entry point's own frame.

`FEEDLINE_DEBUG=1`, or `feedline.debug()`, shows all frames.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import wraps
from inspect import isfunction
from types import FrameType, FunctionType, TracebackType
from typing import Any, TypeVar

from feedline.errors import FeedlineError

_VARIABLE = "FEEDLINE_DEBUG"
_PACKAGE = os.path.dirname(__file__) + os.sep
_TESTING = _PACKAGE + "testing.py"  # is used as a user's own tests are
_STANDARD = os.path.dirname(os.__file__) + os.sep, "<frozen "
_INSTALLED = f"-packages{os.sep}"  # site-packages, or Debian's dist-packages
# Modules in which feedline waits. Frames of theirs that feedline called are as little use as feedline's own.
_WAITING = {"threading", "contextlib", "concurrent.futures._base", "concurrent.futures.thread"}

_Class = TypeVar("_Class", bound=type)


def debug(on: bool = True) -> None:
    """Show feedline's own frames in tracebacks, or hide them again.

    It sets the environment variable FEEDLINE_DEBUG, which worker processes inherit when they start.
    """
    os.environ[_VARIABLE] = "1" if on else "0"


def _shows_all() -> bool:
    return os.environ.get(_VARIABLE, "0") not in ("", "0")


def hide_frames() -> tuple[type[BaseException], ...]:
    """Shorten the traceback of the error that is passing. Gives no class, so that `except` does not match."""
    error = sys.exc_info()[1]
    if error is not None and not isinstance(error, StopIteration | GeneratorExit) and not _shows_all():
        _shorten(error)
    return ()


def shortened(trace: TracebackType | None) -> TracebackType | None:
    """The traceback without feedline's frames."""
    return trace if _shows_all() else _linked(_user_entries(trace))


def _user_entries(trace: TracebackType | None) -> list[TracebackType]:
    found = []
    ours = False
    while trace is not None:
        frame = trace.tb_frame
        ours = is_ours(frame) or (ours and frame.f_globals.get("__name__") in _WAITING)
        if not ours:
            found.append(trace)
        trace = trace.tb_next
    return found


def is_ours(frame: FrameType) -> bool:
    """Does feedline's own code run in this frame?"""
    file = frame.f_code.co_filename
    if file == "<string>":  # methods that `dataclass` made, or the program of `python -c`
        return str(frame.f_globals.get("__name__")).startswith("feedline.")
    return file.startswith(_PACKAGE) and file != _TESTING


def short_tracebacks(cls: _Class) -> _Class:
    """Guard the public methods and properties of a class with `hide_frames`."""
    for name, member in list(vars(cls).items()):
        if name.startswith("_") and name not in ("__iter__", "__len__", "__getitem__"):
            continue
        if isinstance(member, staticmethod):
            setattr(cls, name, staticmethod(_guarded(member.__func__)))
        elif isinstance(member, property) and member.fget is not None:
            setattr(cls, name, property(_guarded(member.fget), doc=member.__doc__))
        elif isfunction(member):
            setattr(cls, name, _guarded(member))
    return cls


def _guarded(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except hide_frames():
            raise

    return guarded


_GUARD = _guarded(len).__code__


def unguarded(function: FunctionType) -> FunctionType:
    """The method that `short_tracebacks` has guarded; other functions as they are."""
    return function.__wrapped__ if function.__code__ is _GUARD else function  # type: ignore[attr-defined]


def _shorten(error: BaseException) -> None:
    """Hide feedline's frames in the error and in the errors that it is printed with."""
    done = set()
    following: BaseException | None = error
    while following is not None and id(following) not in done:
        done.add(id(following))
        entries = _user_entries(following.__traceback__)
        if following is error and not entries:
            entries = _origin(error)
        following.__traceback__ = _linked(entries)
        _hide_repetition(following)
        hidden = following.__cause__ is None and following.__suppress_context__
        following = None if hidden else following.__cause__ or following.__context__


def _origin(error: BaseException) -> list[TracebackType]:
    """The frame that raised what neither its type nor a note explains: a bug of feedline's, say."""
    if isinstance(error, FeedlineError) or not isinstance(error, Exception) or hasattr(error, "__notes__"):
        return []
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return [] if trace is None else [trace]


def _linked(entries: list[TracebackType]) -> TracebackType | None:
    # New entries: the old ones may be in another's hands.
    linked = None
    for entry in reversed(entries):
        linked = TracebackType(linked, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return linked


def _hide_repetition(error: BaseException) -> None:
    """Hide the error that feedline handled when it raised this one, where it tells nothing more."""
    cause, context = error.__cause__, error.__context__
    if cause is not None:
        if (
            isinstance(error, FeedlineError)
            and all(map(_is_of_library, _user_entries(cause.__traceback__)))
            and (getattr(cause, "strerror", None) or str(cause)) in str(error)
        ):
            error.__cause__ = None  # programs still find it in __context__
    elif context is not None and not _user_entries(context.__traceback__):
        error.__suppress_context__ = True


def _is_of_library(entry: TracebackType) -> bool:
    file = entry.tb_frame.f_code.co_filename
    return file.startswith(_STANDARD) or _INSTALLED in file

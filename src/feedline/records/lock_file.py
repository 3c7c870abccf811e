"""Locks on files, and who holds them.

They are the kernel's (flock): it frees a lock when the holder ends, however it does. A LockFile that nobody
has locked is one that was left behind, and the next one that wants it takes it over.
"""

from __future__ import annotations

import fcntl
import os
import sys
import time
from contextlib import suppress
from weakref import WeakSet


class _Lock:
    def __init__(self, path: str, fd: int) -> None:
        self._path = path
        self._fd = fd
        _all.add(self)

    @property
    def is_mine(self) -> bool:
        """Not once it is released, and not in a forked child."""
        return self._fd >= 0

    def release(self) -> None:
        if self._fd >= 0:
            with suppress(OSError):
                fcntl.flock(self._fd, fcntl.LOCK_UN)  # a process that was forked just then may have a copy
            self._close()

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class SharedLock(_Lock):
    """Held by any number together, on a file that stays. One that takes it alone has it for a moment only."""

    @classmethod
    def take(cls, path: str, *, may_make: bool) -> SharedLock:
        flags = os.O_RDONLY | os.O_CLOEXEC | (os.O_CREAT if may_make else 0)
        while True:
            fd = os.open(path, flags, 0o666)
            try:
                fcntl.flock(fd, fcntl.LOCK_SH)
                if is_at(path, fd):
                    return cls(path, fd)
            except BaseException:
                os.close(fd)
                raise
            os.close(fd)


class LockFile(_Lock):
    """Held by one alone, on a file that is there as long as it is held."""

    @classmethod
    def take(cls, path: str) -> LockFile | None:
        """None when another has it; OSError when there can be no lock."""
        while True:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if is_at(path, fd):
                    os.ftruncate(fd, 0)
                    os.pwrite(fd, who_i_am().encode(errors="replace"), 0)
                    return cls(path, fd)
            except BlockingIOError:
                os.close(fd)
                return None
            except BaseException:
                os.close(fd)
                raise
            os.close(fd)  # the holder before removed the file in the very moment

    @property
    def is_in_place(self) -> bool:
        """Has nobody removed the file? Then nobody else can have the lock."""
        return self._fd >= 0 and is_at(self._path, self._fd)

    def touch(self) -> None:
        """Tell by the time of the file that the holder is alive."""
        with suppress(OSError):
            os.utime(self._fd)

    def release(self) -> None:
        if self.is_in_place:
            with suppress(OSError):
                os.unlink(self._path)
        super().release()


def holder_of(path: str) -> str | None:
    """What the holder says of itself; None when nobody holds it."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.pread(fd, 1000, 0).decode(errors="replace") or "a process that has just begun"
    finally:
        os.close(fd)
    return None


def is_at(path: str, fd: int) -> bool:
    """Is this still the file of that name?"""
    try:
        return os.path.samestat(os.stat(path), os.fstat(fd))
    except FileNotFoundError:
        return False


def who_i_am() -> str:
    program = os.path.basename(sys.argv[0] if sys.argv and sys.argv[0] else sys.executable)
    since = time.strftime("%Y-%m-%d %H:%M:%S")
    return f"process {os.getpid()} ({program}) on {os.uname().nodename} since {since}"


_all: WeakSet[_Lock] = WeakSet()


def _leave_to_parent() -> None:
    """In a forked child. With its copy of the lock, the lock would outlive the parent."""
    for lock in tuple(_all):
        lock._close()


os.register_at_fork(after_in_child=_leave_to_parent)

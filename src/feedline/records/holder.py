"""Who writes in a directory under a prefix: one at a time.

The holder has a lock (flock) on `.<prefix>.lock`, in which it says who it is. The kernel frees the lock when
the holder ends, however it does: a file that nobody has locked is one that was left behind.
"""

from __future__ import annotations

import fcntl
import os
import sys
import time
from contextlib import suppress
from errno import EBUSY
from weakref import WeakSet

from feedline.errors import WriteError


class Holder:
    def __init__(self, directory: str, prefix: str) -> None:
        """WriteError when another one has it; OSError when no lock can be had there."""
        self._path = os.path.join(directory, f".{prefix}.lock")
        while True:
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                if self._lock(directory, prefix):
                    break
            except BaseException:
                os.close(self._fd)
                raise
            os.close(self._fd)
        _all.add(self)

    def _lock(self, directory: str, prefix: str) -> bool:
        """False when the holder before removed the file in the very moment."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            who = os.pread(self._fd, 1000, 0).decode(errors="replace") or "a process that has just begun"
            raise WriteError(
                EBUSY,
                f"{directory}: the prefix {prefix!r} is being written by {who}.\n"
                "  Wait for it or end it, or write with another prefix=.",
            ) from None
        try:
            there = os.stat(self._path)
        except FileNotFoundError:
            return False
        if not os.path.samestat(there, os.fstat(self._fd)):
            return False
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, _who_i_am().encode(errors="replace"), 0)
        return True

    @property
    def is_mine(self) -> bool:
        """Not once it is released, and not in a forked child."""
        return self._fd >= 0

    def release(self) -> None:
        if self._fd >= 0:
            with suppress(OSError):
                os.unlink(self._path)
            fcntl.flock(self._fd, fcntl.LOCK_UN)  # a process that was forked just then may have a copy
            self._close()

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


_all: WeakSet[Holder] = WeakSet()


def _leave_to_parent() -> None:
    """In a forked child. With its copy of the lock, the lock would outlive the parent."""
    for holder in tuple(_all):
        holder._close()


os.register_at_fork(after_in_child=_leave_to_parent)


def _who_i_am() -> str:
    program = os.path.basename(sys.argv[0] if sys.argv and sys.argv[0] else sys.executable)
    since = time.strftime("%Y-%m-%d %H:%M:%S")
    return f"process {os.getpid()} ({program}) on {os.uname().nodename} since {since}"

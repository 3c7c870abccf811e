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
from io import FileIO
from threading import Lock
from weakref import WeakSet


class _Lock:
    """Held by a file object, because that is closed when it is dropped: Ctrl-C in the middle of taking or
    releasing a lock frees it, too."""

    def __init__(self, path: str, file: FileIO) -> None:
        self._path = path
        self._file = file
        self._use = Lock()  # of the descriptor: once it is closed, another file may have its number
        _all.add(self)

    @property
    def is_mine(self) -> bool:
        """Not once it is released, and not in a forked child."""
        return not self._file.closed

    def release(self) -> None:
        if not self.is_mine:
            return  # and in a forked child, who knows who has _use
        with self._use:
            if self.is_mine:
                with suppress(OSError):
                    fcntl.flock(self._file, fcntl.LOCK_UN)  # a process forked just then may have a copy
                self._file.close()


class SharedLock(_Lock):
    """Held by any number together, on a file that stays. One that takes it alone has it for a moment only."""

    @classmethod
    def take(cls, path: str, *, may_make: bool) -> SharedLock:
        while True:
            try:
                file = FileIO(path)
            except FileNotFoundError:
                if not may_make:
                    raise
                file = FileIO(path, "a+")  # on NFS, who shares a lock must be able to read
            try:
                fcntl.flock(file, fcntl.LOCK_SH)
                if is_at(path, file.fileno()):
                    return cls(path, file)
            except BaseException:
                file.close()
                raise
            file.close()


class LockFile(_Lock):
    """Held by one alone, on a file that is there as long as it is held."""

    @classmethod
    def take(cls, path: str) -> LockFile | None:
        """None when another has it; OSError when there can be no lock."""
        while True:
            file = FileIO(path, "a+")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if is_at(path, file.fileno()):
                    os.ftruncate(file.fileno(), 0)
                    file.write(who_i_am().encode(errors="replace"))
                    return cls(path, file)
            except BlockingIOError:
                file.close()
                return None
            except BaseException:
                file.close()
                raise
            file.close()  # the holder before removed the file in the very moment

    @property
    def is_in_place(self) -> bool:
        """Has nobody removed the file? Then nobody else can have the lock."""
        return self.is_mine and is_at(self._path, self._file.fileno())

    def touch(self) -> None:
        """Tell by the time of the file that the holder is alive."""
        with self._use, suppress(OSError):
            if self.is_mine:
                os.utime(self._file.fileno())

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


def locker_of(fd: int) -> int | None:
    """The process that has locked the file; None if it cannot be told, as on another host."""
    file = os.fstat(fd)
    place = f"{os.major(file.st_dev):02x}:{os.minor(file.st_dev):02x}:{file.st_ino}"
    with suppress(OSError), open("/proc/locks") as locks:
        for line in locks:
            # 1: FLOCK  ADVISORY  WRITE 4711 fe:00:2154421 0 EOF
            fields = line.split()
            if fields[1] == "FLOCK" and fields[-3] == place:
                return int(fields[-4])
    return None


def describe_process(pid: int) -> str:
    """Its number and, where /proc shows it, its command line."""
    with suppress(OSError), open(f"/proc/{pid}/cmdline", errors="replace") as file:
        command = file.read(200).replace("\0", " ").strip()
        if command:
            return f"process {pid} ({command})"
    return f"process {pid}"


def who_i_am() -> str:
    program = os.path.basename(sys.argv[0] if sys.argv and sys.argv[0] else sys.executable)
    since = time.strftime("%Y-%m-%d %H:%M:%S")
    return f"process {os.getpid()} ({program}) on {os.uname().nodename} since {since}"


_all: WeakSet[_Lock] = WeakSet()


def _leave_to_parent() -> None:
    """In a forked child. With its copy of the lock, the lock would outlive the parent."""
    for lock in tuple(_all):
        lock._file.close()


os.register_at_fork(after_in_child=_leave_to_parent)

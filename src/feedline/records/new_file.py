"""A file that is there under its name only when it is complete.

Until then it has a hidden name beside it, and its writer holds a lock on it (flock). The hidden name follows
from the final one, so a second writer of the same file finds the first one's lock and is refused. A hidden
file that nobody has locked is what a killed writer left behind; the next writer of that file removes it.
"""

from __future__ import annotations

import fcntl
import os
import stat
from contextlib import suppress
from errno import EBUSY, ESTALE
from hashlib import blake2b
from types import TracebackType
from typing import Any
from weakref import WeakSet

from feedline.errors import UsageError, WriteError
from feedline.records.lock_file import describe_process, is_at, locker_of


class NewFile:
    def __init__(self, path: str | os.PathLike[str]) -> None:
        """WriteError when there can be no such file, or while another writer has it."""
        self.path = os.fsdecode(path)
        if not self.path or "\0" in self.path:
            raise UsageError(f"{self.path!r} cannot be the path of a file.")
        try:
            self._there = _place_of(self.path)
            self._partial = _partial_of(self._there)
            self.fd = _open_partial(self._partial, self.path)
        except WriteError:
            raise
        except OSError as error:
            raise cannot_write(self.path, error) from error
        self._owner = os.getpid()
        _all.add(self)

    @property
    def is_mine(self) -> bool:
        """Not in a forked child."""
        return os.getpid() == self._owner

    def write(self, data: Any) -> None:
        left = memoryview(data).cast("B")
        try:
            while left:
                left = left[os.write(self.fd, left) :]
        except OSError as error:
            raise cannot_write(self.path, error) from error

    def commit(self, *, durable: bool = True) -> None:
        """It is there, all of it. If durable, it stays so when the machine loses power."""
        try:
            if durable:
                # Before the rename: a power failure could otherwise leave an empty file under the final name.
                os.fsync(self.fd)
            if not is_at(self._partial, self.fd):  # what has its hidden name now is another writer's
                raise OSError(ESTALE, "somebody removed its hidden file while it was being written")
            os.replace(self._partial, self._there)
        except OSError as error:
            raise cannot_write(self.path, error) from error
        self._close()
        if not durable:
            return
        try:
            sync_directory(os.path.dirname(self._there))
        except OSError as error:
            raise WriteError(
                error.errno,
                f"{self.path} is complete, but its directory cannot be synced: {error.strerror}.\n"
                "  If the machine fails now, the file may be gone.",
            ) from error

    def abort(self) -> None:
        """It never was. After commit() nothing is done."""
        if self.fd >= 0:
            with suppress(OSError):
                if is_at(self._partial, self.fd):
                    os.unlink(self._partial)
            self._close()

    def _close(self) -> None:
        fd, self.fd = self.fd, -1
        os.close(fd)

    def __enter__(self) -> NewFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.commit()
        finally:
            self.abort()


def sync_directory(path: str) -> None:
    """So that names in it that were made or changed stay so."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def cannot_write(path: str, error: OSError) -> WriteError:
    return WriteError(
        error.errno,
        f"cannot write {path}: {error.strerror}. Nothing was left behind. Fix the cause and try again.",
    )


def _place_of(path: str) -> str:
    """Where the file goes, even after a chdir. A link is written through, not replaced."""
    if not os.path.isabs(path):
        path = os.path.join(os.getcwd(), path)
    with suppress(FileNotFoundError):
        mode = os.lstat(path).st_mode
        if stat.S_ISLNK(mode):
            path = os.path.realpath(path)
            mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(21, "it is a directory; give the path of a file")
        if not stat.S_ISREG(mode):  # a device must not be replaced by a file
            raise OSError(22, "it is there, and is no regular file")
    return path


def _partial_of(path: str) -> str:
    folder, name = os.path.split(path)
    # Not the name itself: with more to it, it could be too long.
    return os.path.join(folder, f".feedline-{blake2b(os.fsencode(name), digest_size=8).hexdigest()}.partial")


def _open_partial(partial: str, path: str) -> int:
    while True:
        try:
            fd = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except FileExistsError:
            _remove_left(partial, path)
            continue
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            if os.fstat(fd).st_nlink:  # else someone took it for one that was left behind
                return fd
        except BaseException:
            os.unlink(partial)
            os.close(fd)
            raise
        os.close(fd)


def _remove_left(partial: str, path: str) -> None:
    """Remove what a killed writer left. WriteError if its writer is alive."""
    # On NFS, an exclusive lock needs a file that is open for writing. Elsewhere another user's will do.
    mode = os.O_RDWR if os.access(partial, os.W_OK) else os.O_RDONLY
    try:
        fd = os.open(partial, mode | os.O_CLOEXEC)
    except FileNotFoundError:  # its writer is done
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if is_at(partial, fd):
            os.unlink(partial)
    except BlockingIOError:
        raise _in_use(path, fd) from None
    finally:
        os.close(fd)


def _in_use(path: str, fd: int) -> WriteError:
    holder = locker_of(fd)
    if holder == os.getpid():
        return WriteError(
            EBUSY,
            f"{path} is open in another writer of this process.\n"
            "  Close or abort that one first. Threads can share one writer.",
        )
    who = "another process" if holder is None else describe_process(holder)
    return WriteError(
        EBUSY,
        f"{path} is being written by {who}.\n  Wait until it is done or stop it, or write to another path.",
    )


_all: WeakSet[NewFile] = WeakSet()


def _leave_to_parent() -> None:
    """In a forked child. With its copy of the descriptor, the lock would outlive the parent."""
    for file in tuple(_all):
        if file.fd >= 0:
            file._close()


os.register_at_fork(after_in_child=_leave_to_parent)

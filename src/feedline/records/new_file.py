"""A file that is there under its name only when it is complete.

Until then it has a hidden name beside it, and its writer holds a lock on it. What a killed writer left behind
is removed by the next one that writes under that name.
"""

from __future__ import annotations

import fcntl
import glob
import os
import secrets
import stat
from contextlib import suppress
from hashlib import blake2b
from types import TracebackType
from typing import Any

from feedline.errors import UsageError, WriteError


class NewFile:
    def __init__(self, path: str | os.PathLike[str]) -> None:
        """WriteError when there can be no such file."""
        self.path = os.fsdecode(path)
        if not self.path or "\0" in self.path:
            raise UsageError(f"{self.path!r} cannot be the path of a file.")
        self._there = os.path.realpath(self.path)  # a link is written through, not replaced
        try:
            _check_place(self._there)
            self._partial, self.fd = _open_partial(self._there)
        except OSError as error:
            raise cannot_write(self.path, error) from error
        self._owner = os.getpid()

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

    def commit(self) -> None:
        """It is there, and stays so if the machine loses power."""
        try:
            os.fsync(self.fd)
            os.replace(self._partial, self._there)
        except OSError as error:
            raise cannot_write(self.path, error) from error
        self._close()
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
            if self.is_mine:
                with suppress(OSError):
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
        f"cannot write {path}: {error.strerror}. Nothing was left behind; free the cause and try again.",
    )


def _check_place(path: str) -> None:
    with suppress(FileNotFoundError):
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(21, "it is a directory; give the path of a file")
        if not stat.S_ISREG(mode):  # a device must not be replaced by a file
            raise OSError(22, "it is there, and is no regular file")


def _open_partial(path: str) -> tuple[str, int]:
    folder, name = os.path.split(path)
    # Not the name itself: with more to it, it could be too long.
    begin = f".feedline-{blake2b(os.fsencode(name), digest_size=8).hexdigest()}-"
    _remove_left(os.path.join(glob.escape(folder), begin + "*"))
    while True:
        partial = os.path.join(folder, begin + secrets.token_hex(4))
        fd = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            if os.fstat(fd).st_nlink:  # else someone took it for one that was left behind
                return partial, fd
        except BaseException:
            os.unlink(partial)
            os.close(fd)
            raise
        os.close(fd)


def _remove_left(pattern: str) -> None:
    for partial in glob.glob(pattern):
        with suppress(OSError), open(partial, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(partial)

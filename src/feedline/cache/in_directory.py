"""Entries in a directory, for runs on one host, or on hosts that share a file system with locks.

    <location>/<key>/lock           locked by all that have the entry open, or alone by one that removes it
                     items/<name>   linked to its name when it is complete
                     partial/...    until then
                     claims/<name>  locked by its holder (records/lock_file), touched while that is alive
                     users/<token>  locked by one that has the entry open
                     used           its time: when the entry was opened last; its size: the hits

An item is not synced to the disk: what a loss of power damages, is found by its checksum and made again.
"""

from __future__ import annotations

import fcntl
import fnmatch
import os
import secrets
import shutil
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from errno import EEXIST, ENOENT, ENOTSUP, EPERM
from io import FileIO
from itertools import islice
from stat import S_ISDIR
from typing import Any
from weakref import finalize

from feedline import _native
from feedline.cache import store
from feedline.cache.store import Claim, Entry, Info, NoRoom, Store, checked_key, checked_name, is_key
from feedline.errors import CacheError
from feedline.records.lock_file import LockFile, SharedLock, holder_of, is_at

_REMOVED = ".removed-"
_MOST_PIECES = os.sysconf("SC_IOV_MAX")  # of a writev
_MOST_TRIES = 1000  # to open an entry that others remove at the same time


class DirectoryStore(Store):
    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.location = os.path.abspath(os.fsdecode(path))

    def open(self, key: str) -> Entry:
        return DirectoryEntry(self._path(key), self._why_not())

    def _path(self, key: str, *parts: str) -> str:
        return os.path.join(self.location, checked_key(key), *parts)

    def _why_not(self) -> str | None:
        """Why nothing should be written here, if so."""
        try:
            facts = os.stat(self.location)
        except OSError:
            return None
        if not S_ISDIR(facts.st_mode):
            raise CacheError(f"{self.location}: a cache needs a directory, and this is a file.")
        if facts.st_uid == os.geteuid() or not facts.st_mode & 0o002:
            return None
        return (
            f"{self.location}: the directory is another user's ({facts.st_uid}), and everyone may write "
            "there, so anyone could replace what is cached. Nothing was written.\n"
            f"  Use a directory of your own, or have it closed:  chmod o-w {self.location}"
        )

    def keys(self) -> list[str]:
        try:
            with os.scandir(self.location) as found:
                return sorted(one.name for one in found if is_key(one.name) and one.is_dir())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _unreadable(self.location, error) from error

    def peek(self, key: str, name: str) -> bytes | None:
        try:
            with open(self._path(key, "items", checked_name(name)), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unreadable(self._path(key, "items", name), error) from error

    def names(self, key: str) -> list[str]:
        try:
            return sorted(os.listdir(self._path(key, "items")))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _unreadable(self._path(key), error) from error

    def info(self, key: str) -> Info | None:
        try:
            sizes = self._sizes(key)
            made = os.stat(self._path(key)).st_mtime  # should one have been killed before it made the lock
            used, hits = made, 0
            with suppress(FileNotFoundError):
                used = made = os.stat(self._path(key, "lock")).st_mtime
                facts = os.stat(self._path(key, "used"))
                used, hits = facts.st_mtime, facts.st_size
            return Info(key, sum(sizes), len(sizes), made, used, hits, self._users(key))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unreadable(self._path(key), error) from error

    def _sizes(self, key: str) -> list[int]:
        sizes = []
        with suppress(FileNotFoundError), os.scandir(self._path(key, "items")) as items:
            for item in items:
                with suppress(FileNotFoundError):  # dropped just now
                    sizes.append(item.stat().st_size)
        return sizes

    def _users(self, key: str) -> list[str]:
        folder = self._path(key, "users")
        try:
            holders = [holder_of(os.path.join(folder, name)) for name in sorted(os.listdir(folder))]
        except FileNotFoundError:
            return []
        return [holder for holder in holders if holder is not None]

    def remove(self, key: str) -> bool:
        path = self._path(key)
        try:
            # Made if there is none: who was killed before it made the lock, left the rest.
            fd = os.open(os.path.join(path, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except FileNotFoundError:
            return True
        except OSError as error:
            raise CacheError(f"{path} cannot be removed: {error.strerror}.") from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if is_at(os.path.join(path, "lock"), fd):
                os.rename(path, os.path.join(self.location, _REMOVED + secrets.token_hex(8)))
            removed = [name for name in os.listdir(self.location) if name.startswith(_REMOVED)]
        except BlockingIOError:
            return False
        except OSError as error:
            raise CacheError(f"{path} cannot be removed: {error.strerror}.") from error
        finally:
            os.close(fd)
        for name in removed:  # those too that a killed process was about to remove
            shutil.rmtree(os.path.join(self.location, name), ignore_errors=True)
        return True


class DirectoryEntry(Entry):
    is_mapped = True

    def __init__(self, path: str, why_not: str | None) -> None:
        self._path = path
        self._why_not = why_not  # written to
        self._lock: SharedLock | None = None
        self._mark: LockFile | None = None
        self._token = ""
        self._denied = ""  # why nothing can be written. Not the error, whose traceback would keep the entry
        try:
            self._open()
        except OSError as error:
            # It may still be read, if there is anything. What cannot be written to is nobody's to remove.
            self._denied = error.strerror or str(error)

    def _open(self) -> None:
        self._lock = self._take_lock()
        if self._why_not is None:
            for folder in ("items", "partial", "claims", "users"):
                os.makedirs(os.path.join(self._path, folder), exist_ok=True)
            while self._mark is None:
                self._token = secrets.token_hex(8)
                self._mark = LockFile.take(os.path.join(self._path, "users", self._token))
            self._remove_left()
            self._tell_use()

    def _tell_use(self) -> None:
        with open(os.path.join(self._path, "used"), "ab") as used:
            os.utime(used.fileno())

    def _take_lock(self) -> SharedLock:
        may_make = self._why_not is None
        tries = _MOST_TRIES
        while True:
            try:
                if may_make:
                    os.makedirs(self._path, exist_ok=True)
                return SharedLock.take(os.path.join(self._path, "lock"), may_make=may_make)
            except (FileNotFoundError, FileExistsError):  # another removes the entry in this very moment
                tries -= 1
                if not may_make or not tries:
                    raise

    def _remove_left(self) -> None:
        """What users had that were killed: their partial files, their marks, their claims."""
        for folder in ("users", "claims"):
            for name in os.listdir(os.path.join(self._path, folder)):
                left = LockFile.take(os.path.join(self._path, folder, name))
                if left is not None:
                    if folder == "users":
                        self._remove_partial(f"*.{name}")
                    left.release()

    def _item(self, name: str) -> str:
        return os.path.join(self._path, "items", checked_name(name))

    def read(self, name: str) -> Any | None:
        try:
            with FileIO(self._item(name)) as file:
                size = os.fstat(file.fileno()).st_size
                return _native.mapped_file(file.fileno(), size) if size else b""  # nothing cannot be mapped
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _unreadable(self._item(name), error) from error

    def has(self, name: str) -> bool:
        return os.path.exists(self._item(name))

    def put(self, name: str, data: Sequence[Any], claim: Claim | None = None) -> bool:
        self._check_writable()
        assert claim is None or isinstance(claim, DirectoryClaim)
        path = self._item(name)
        partial = os.path.join(self._path, "partial", f"{name}.{secrets.token_hex(8)}.{self._token}")
        try:
            try:
                _write(partial, data)
                return (claim is None or claim.is_in_place) and _link(partial, path)
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(partial)
        except OSError as error:
            raise self._no_room(error.strerror) from error

    def _check_writable(self) -> None:
        if self._why_not is not None:
            raise CacheError(self._why_not)
        if self._denied:
            raise self._no_room(self._denied)

    def _no_room(self, why: str | None) -> NoRoom:
        return NoRoom(f"{self._path}: nothing more can be kept here: {why}.")

    def drop(self, name: str, data: Any) -> None:
        if self._why_not is not None or self._denied:
            return
        current = self.read(name)
        if current is not None and memoryview(current) == memoryview(data):
            try:
                os.unlink(self._item(name))
            except FileNotFoundError:
                pass
            except OSError as error:  # it would be found, and made again, for ever
                raise self._no_room(error.strerror) from error

    def claim(self, name: str) -> Claim | None:
        self._check_writable()
        path = os.path.join(self._path, "claims", checked_name(name))
        try:
            lock = LockFile.take(path)
            if lock is None and _is_silent(path):
                # Its holder was stopped. When it goes on, it finds the file gone.
                with suppress(FileNotFoundError):  # another takes it over
                    os.unlink(path)
                lock = LockFile.take(path)
            if lock is None:
                return None
            claim = DirectoryClaim(lock)
            self._remove_partial(f"{name}.*")
            return claim
        except OSError as error:  # also when someone removed the directory: there will never be a claim
            raise self._no_room(error.strerror) from error

    def _remove_partial(self, pattern: str) -> None:
        """What those wrote that were killed, or had the claim before."""
        folder = os.path.join(self._path, "partial")
        for name in fnmatch.filter(os.listdir(folder), pattern):
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(folder, name))

    def count_hit(self) -> None:
        if self._why_not is None:
            with suppress(OSError), open(os.path.join(self._path, "used"), "ab", buffering=0) as used:
                used.write(b"\n")

    def close(self) -> None:
        mark, self._mark = self._mark, None
        if mark is not None and mark.is_mine:
            with suppress(OSError):
                self._tell_use()
            mark.release()
        if self._lock is not None:
            self._lock.release()


class DirectoryClaim(Claim):
    def __init__(self, lock: LockFile) -> None:
        self._lock = lock
        finalize(self, lock.release)

    @property
    def is_in_place(self) -> bool:
        return self._lock.is_in_place

    def renew(self) -> None:
        self._lock.touch()

    def release(self) -> None:
        self._lock.release()


def _is_silent(path: str) -> bool:
    try:
        return time.time() - os.stat(path).st_mtime > store.SILENCE
    except FileNotFoundError:
        return False  # just released, or taken over by another: there will be a next time


def _write(path: str, data: Sequence[Any]) -> None:
    with FileIO(path, "x") as file:  # not a mere descriptor: Ctrl-C would leave it open
        left = deque(memoryview(one).cast("B") for one in data)
        while left:
            written = os.writev(file.fileno(), list(islice(left, _MOST_PIECES)))
            while left and written >= len(left[0]):
                written -= len(left.popleft())
            if written:
                left[0] = left[0][written:]


def _link(partial: str, path: str) -> bool:
    """Give it its name. False when there is one of that name, or another took over and removed ours."""
    try:
        os.link(partial, path)
    except OSError as error:
        if error.errno == EEXIST or (error.errno == ENOENT and not os.path.exists(partial)):
            return False
        if error.errno not in (EPERM, ENOTSUP):
            raise
        if os.path.exists(
            path
        ):  # a file system without links, where two at the same moment are not told apart
            return False
        os.rename(partial, path)
    return True


def _unreadable(path: str, error: OSError) -> CacheError:
    return CacheError(f"{path} cannot be read: {error.strerror}.")

"""Copies on this host of what an object store holds, so that it is loaded once for all runs here.

They are in $XDG_CACHE_HOME/feedline/objects, or else in ~/.cache/feedline/objects, which may be deleted when
no run uses it. It is a cache in a directory, with two entries for one of the store:

    by url, key and life    the items
    by url and key          the lives that were copied, as items without content

Copies of lives that are gone go when the entry is opened. All take half of what the disk has left for them at
most: those that were not used for the longest time go first, each entry as a whole. Where those in use need
more, or nothing can be written, items are loaded each time they are read, with one warning.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
import warnings
from contextlib import suppress
from hashlib import blake2b
from typing import Any

from feedline.cache.eviction import Bound, look
from feedline.cache.in_directory import DirectoryStore
from feedline.cache.store import Entry, NoRoom, opened
from feedline.errors import CacheError

LIFE = re.compile(r"[0-9a-f]{16}")


class Copies:
    """Of one object store."""

    def __init__(self, url: str, store: DirectoryStore | None = None) -> None:
        self._url = url
        self._store = store or DirectoryStore(_default_location())
        self._lock = threading.Lock()
        self._bound: Bound | None = None
        self.are_kept = True  # until there is no room

    def open(self, key: str, life: str) -> CopiedEntry | None:
        try:
            with suppress(CacheError):  # what is there may still be read
                self._drop_but(key, life)
            return CopiedEntry(self, self._store.open(self._key(key, life)))
        except CacheError as error:
            self.give_up(error)
            return None

    def _drop_but(self, key: str, life: str) -> None:
        with opened(self._store, self._key(key)) as lives:
            lives.put(life, [b""])
            for other in self._store.names(self._key(key)):
                # A run that has it open still reads it; then it goes with a later one.
                if other != life and LIFE.fullmatch(other) and self._store.remove(self._key(key, other)):
                    lives.drop(other, b"")

    def remove(self, key: str, life: str) -> None:
        with suppress(CacheError):
            self._store.remove(self._key(key, life))
            if set(self._store.names(self._key(key))) <= {life}:
                self._store.remove(self._key(key))

    def make_room(self, size: int) -> None:
        with self._lock:
            if self._bound is None:
                self._bound = Bound(self._store, _room(self._store))
        try:
            self._bound.make_room(size)
        except NoRoom:
            raise NoRoom(
                f"{self._store.location}: copies of what is cached would take more than half of what the "
                "disk has left for them, and those that runs have open stay"
            ) from None

    def give_up(self, error: CacheError) -> None:
        """Nothing more is copied from now on. Told once."""
        if self.are_kept:
            self.are_kept = False
            text = str(error).rstrip(".")
            warnings.warn(
                f"{text}.\n  What is read of {self._url} is kept in memory only, and loaded each time.\n"
                f"  Make room for copies in {self._store.location}, or have them elsewhere: set "
                "XDG_CACHE_HOME to a directory on a disk of this host.",
                RuntimeWarning,
                stacklevel=5,
            )

    def _key(self, key: str, life: str = "") -> str:
        return blake2b(f"{self._url}\n{key}\n{life}".encode(), digest_size=16).hexdigest()


class CopiedEntry:
    """The copies of an entry's items. Raises nothing."""

    def __init__(self, copies: Copies, entry: Entry) -> None:
        self._copies = copies
        self._entry = entry

    def read(self, name: str) -> Any | None:
        try:
            return self._entry.read(name)
        except CacheError as error:
            self._copies.give_up(error)
            return None

    def has(self, name: str) -> bool:
        return self._entry.has(name)

    def put(self, name: str, data: Any) -> None:
        if self._copies.are_kept:
            try:
                self._copies.make_room(memoryview(data).nbytes)
                self._entry.put(name, [data])
            except CacheError as error:
                self._copies.give_up(error)

    def drop(self, name: str, data: Any) -> None:
        with suppress(CacheError):
            self._entry.drop(name, data)

    def close(self) -> None:
        self._entry.close()


def _room(store: DirectoryStore) -> int:
    """The bytes that copies may take, with those that there are."""
    copied = sum(entry.bytes for entry in look(store))
    try:
        return (copied + shutil.disk_usage(store.location).free) // 2
    except OSError as error:
        raise NoRoom(f"{store.location} cannot be used: {error.strerror}") from error


def _default_location() -> str:
    above = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(above, "feedline", "objects")

"""What a place for cache entries must be able to do. A new kind of place is one module with a Store, an Entry
and a Claim, and a subclass of the conformance tests.

An entry is a set of items: named, immutable bytes. The first that puts an item wins, whole or not at all, and
nobody ever sees a part of one. Beside them there are claims: who makes what. A claim only spares others the
same work: that nothing is mixed up rests on the first one winning.

Stores move bytes, and do not know what is in them.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from feedline.errors import CacheError, UsageError


class Unavailable(CacheError):
    """The store does not answer. What it holds may still be there."""


class NoRoom(CacheError):
    """The store can take no more, or not from this process: a full disk, a read-only location."""


class Info(NamedTuple):
    """What is known of an entry without opening it."""

    key: str
    bytes: int
    items: int
    made: float  # seconds since 1970, as the next
    used: float  # when it was opened last
    hits: int  # how often it was opened when it was complete
    users: Sequence[str]  # who has it open: one line each


class Claim(ABC):
    """The right to make an item.

    It ends with its holder: by `release`, when the process dies, or when it has been silent for
    `SILENCE` seconds, because it was stopped, say.
    """

    @abstractmethod
    def renew(self) -> None:
        """Tell that the holder is alive. Called every `BEAT` seconds by a thread; raises nothing."""

    @abstractmethod
    def release(self) -> None:
        """Others may have it. May be called twice; raises nothing."""


BEAT = 2.0
SILENCE = 15.0


class Entry(ABC):
    """An entry that is open, and is not removed meanwhile. May be used by several threads at once.

    Every method may raise Unavailable.
    """

    is_mapped = False  # is what was put read from the memory that it was put to?

    @abstractmethod
    def read(self, name: str) -> Any | None:
        """The item, as a buffer of bytes that stays as it is; None when there is none."""

    @abstractmethod
    def has(self, name: str) -> bool: ...

    @abstractmethod
    def put(self, name: str, data: Sequence[Any], claim: Claim | None = None) -> bool:
        """Keep these buffers, end to end, as the item. False, and nothing is done, when it is there already,
        or when the claim has passed to another. NoRoom when it cannot be kept."""

    @abstractmethod
    def drop(self, name: str, data: Any) -> None:
        """Remove an item that was read as `data` and is damaged, unless it has been replaced meanwhile. Where
        this process may make nothing, nothing is done; NoRoom when it cannot be removed otherwise."""

    @abstractmethod
    def claim(self, name: str) -> Claim | None:
        """The claim on the item, whether or not it is there; None when another has it, in this process or
        elsewhere. NoRoom when this process may make nothing here."""

    @abstractmethod
    def count_hit(self) -> None:
        """It was opened when it was complete. Where that cannot be kept, nothing is done."""

    @abstractmethod
    def close(self) -> None:
        """It is no longer in use by this object. Claims must be released before."""


class Store(ABC):
    """A place that holds entries, by key."""

    location: str

    @abstractmethod
    def open(self, key: str) -> Entry:
        """The entry, made if there is none. CacheError when this place must not be used, with the reason."""

    @abstractmethod
    def keys(self) -> list[str]:
        """Of all entries, whole or not."""

    @abstractmethod
    def peek(self, key: str, name: str) -> bytes | None:
        """An item of an entry that need not be open, and is not opened by it."""

    @abstractmethod
    def names(self, key: str) -> list[str]:
        """Of all items of an entry."""

    @abstractmethod
    def info(self, key: str) -> Info | None:
        """None when there is no such entry."""

    @abstractmethod
    def remove(self, key: str) -> bool:
        """Remove an entry, whole or not at all for those who look. False when a live run has it open."""


def is_key(text: str) -> bool:
    return re.fullmatch("[0-9a-f]{32}", text) is not None


def checked_key(key: str) -> str:
    """For stores, which make paths of it."""
    if not is_key(key):
        raise UsageError(
            f"{key!r} is no key of a cache entry: it has 32 hexadecimal digits, in small letters."
        )
    return key


def checked_name(name: str) -> str:
    if re.fullmatch("[a-z0-9-]{1,64}", name) is None:
        raise UsageError(
            f"{name!r} is no name of an item: it has up to 64 small letters, digits and hyphens."
        )
    return name


@contextmanager
def opened(store: Store, key: str) -> Iterator[Entry]:
    entry = store.open(key)
    try:
        yield entry
    finally:
        entry.close()

"""Keeping a location within bounds: the entries that were not used for the longest time go first, each as a
whole, and never one that a live run has open.

Sizes are those of the items. What is being written just now, and locks and marks, do not count.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from threading import Lock

from feedline.cache.store import Info, NoRoom, Store, Unavailable
from feedline.errors import CacheError

# After it has looked, a run puts at most so many bytes until it looks again, and never more than a share of
# what it saw free: as many runs may do the same at once.
_MOST_BYTES = 64 << 20
_SHARE = 8
_SECONDS = 1.0  # what it saw holds for so long; longer where looking takes long, so that it costs 5% at most
_COSTS = 20


def look(store: Store) -> list[Info]:
    """All entries that can be looked at."""
    keys, found = store.keys(), []
    for key in keys:
        try:
            info = store.info(key)
        except Unavailable:
            raise
        except CacheError:
            continue  # another user's, say: it is not ours to count or to remove
        if info is not None:
            found.append(info)
    return found


def evict(store: Store, max_bytes: int) -> list[Info]:
    """Remove entries until all have `max_bytes` at most, or until the rest is in use; those that went.

    CacheError when that failed because an entry can not be removed; others are removed all the same.
    """
    entries = look(store)
    wanted = sum(entry.bytes for entry in entries) - max_bytes
    removed, refusal = _free(store, entries, wanted)
    if refusal is not None and sum(entry.bytes for entry in removed) < wanted:
        also = f"\n  {len(removed):,} other entries were removed." if removed else ""
        raise CacheError(f"{refusal}{also}") from refusal
    return removed


def _free(store: Store, entries: Iterable[Info], wanted: int) -> tuple[list[Info], CacheError | None]:
    """Remove entries with so many bytes together, or as many as can be. What went, and the first refusal."""
    removed: list[Info] = []
    refusal: CacheError | None = None
    for entry in sorted(entries, key=lambda one: (one.used, one.key)):
        if wanted <= 0:
            break
        try:
            if entry.users or not store.remove(entry.key):
                continue
        except Unavailable:
            raise
        except CacheError as error:
            refusal = refusal or error
            continue
        removed.append(entry)
        wanted -= entry.bytes
    return removed, refusal


class Bound:
    """A limit that the runs which fill a location keep, each for itself, without talking to the others.

    A run that has looked puts an eighth of what it saw free, and then looks again; so near the limit it looks
    before every part. Up to eight runs with the same limit exceed it by one part each at most: those that
    they put at the same moment. More is possible only if others put 7/8 of what a run saw free before it
    looks again, which it does after a second (later, where looking takes long): 64 MB for each run at most.

    May be used by several threads.
    """

    def __init__(self, store: Store, limit: int) -> None:
        self._store = store
        self._limit = limit
        self._lock = Lock()
        self._allowed = 0  # bytes that may be put before the next look
        self._until = 0.0  # when that ends

    def make_room(self, size: int) -> None:
        """So many bytes are about to be put. Entries that nobody uses make room for them; NoRoom when that is
        not enough."""
        with self._lock:
            if size > self._allowed or time.monotonic() > self._until:
                began = time.monotonic()
                free = self._find(size)
                self._allowed = size + min(_MOST_BYTES, (free - size) // _SHARE)
                ended = time.monotonic()
                self._until = ended + max(_SECONDS, _COSTS * (ended - began))
            self._allowed -= size

    def _find(self, size: int) -> int:
        """The bytes that are free: `size` at least."""
        try:
            entries = look(self._store)
        except Unavailable:
            raise
        except CacheError as error:
            raise NoRoom(f"cache_limit= cannot be kept where one may not look: {error}") from error
        free = self._limit - sum(entry.bytes for entry in entries)
        if size <= free:
            return free
        in_use = sum(entry.bytes for entry in entries if entry.users)
        refusal = None
        if in_use + size <= self._limit:  # else all the others would go for nothing
            # A little more than is needed: in a full location with many small entries, each part would look
            # at all of them.
            spare = min(self._limit // 16, _SHARE * _MOST_BYTES)
            removed, refusal = _free(self._store, entries, size + spare - free)
            free += sum(entry.bytes for entry in removed)
        if size > free:
            why = "" if refusal is None else f"\n  {refusal}"
            raise NoRoom(
                f"{self._store.location}: a part of {size:,} bytes would exceed cache_limit={self._limit:,}: "
                f"there are {self._limit - free:,} bytes, and {in_use:,} are in use by this run and "
                f"others.{why}\n"
                f"  To see who uses what:  feedline cache ls {self._store.location}\n"
                "  Give a larger cache_limit=, or another location."
            )
        return free

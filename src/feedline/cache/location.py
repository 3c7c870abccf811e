"""Cache: what a location holds, whether it is sound, and how to be rid of it.

It looks from outside: no entry is opened, so none counts as used by it. What it finds is a stranger's: an
entry that was left unfinished, is damaged, or was made by another version is shown and can be removed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

from feedline.cache import eviction
from feedline.cache import plan as documents
from feedline.cache.costs import Costs
from feedline.cache.opening import open_store
from feedline.cache.part import decode
from feedline.cache.plan import IN_ORDER, MANIFEST, PLAN, Manifest, Plan, in_order_because, name_of
from feedline.cache.store import Info, Store, Unavailable
from feedline.cache.verifying import CacheFinding, numbers_of, verify_entry
from feedline.errors import CacheError, CorruptRecord, UsageError
from feedline.graph import Fingerprint
from feedline.graph.arguments import bytes_of

_SAMPLED = 4  # parts that tell what filling took: each is read as a whole
_LEAST_DIGITS = 4  # of a key that is not given in full

_Document = TypeVar("_Document", Plan, Manifest)


@dataclass(frozen=True, repr=False)
class CacheEntry:
    """What a pipeline gave, as it is cached."""

    key: str  # the pipeline's fingerprint
    bytes: int
    elements: int | None  # once it is complete
    parts: int  # that are there
    parts_in_all: int | None  # None when it is not known yet
    complete: bool
    steps: str  # of the pipeline
    made: float  # seconds since 1970, as the next
    used: float  # when a run opened it last
    hits: int  # how often a run found it complete
    users: tuple[str, ...]  # who has it open: a line for each
    trouble: str = ""  # why it can be of no use
    pipeline: Mapping[str, str] = field(default_factory=dict)  # the parts of the fingerprint
    sharing: str = ""  # how runs share the work of filling it

    def __repr__(self) -> str:
        users = f"in use by {len(self.users):,}" if self.users else ""
        facts = (
            self.steps,
            f"{self.bytes:,} bytes",
            self.progress,
            f"{self.hits:,} hits",
            users,
            self.trouble,
        )
        return f"<CacheEntry {self.key}: {', '.join(filter(None, facts))}>"

    @property
    def progress(self) -> str:
        """How much of it is there."""
        if self.complete:
            return f"complete, {self.elements:,} elements"
        in_all = "" if self.parts_in_all is None else f" of {self.parts_in_all:,}"
        return f"{self.parts:,}{in_all} parts"


class Cache:
    """The entries that `Dataset.cache(location)` keeps at a location.

    `blobs` is where the large parts of a cache in Redis are.

    >>> import tempfile
    >>> from feedline import Cache, Dataset
    >>> directory = tempfile.TemporaryDirectory()
    >>> squares = [int(x) for x in Dataset.range(5).map(lambda x: x * x).cache(directory.name)]
    >>> cache = Cache(directory.name)
    >>> [entry] = cache.entries()
    >>> entry.complete, entry.elements, entry.parts, entry.hits
    (True, 5, 1, 0)
    >>> cache.verify()
    []
    >>> cache.remove(entry.key[:8])
    >>> cache.entries()
    []
    >>> directory.cleanup()
    """

    def __init__(
        self, location: str | os.PathLike[str], *, blobs: str | os.PathLike[str] | None = None
    ) -> None:
        if not os.fspath(location):
            raise UsageError("Cache(''): give the location of a cache: a directory, redis://... or s3://...")
        self._store = open_store(location, blobs=blobs)

    def __repr__(self) -> str:
        return f"Cache({self.location!r})"

    @property
    def location(self) -> str:
        return self._store.location

    def entries(self) -> list[CacheEntry]:
        """All of them, whole or not; those that were used last come first."""
        keys = self._store.keys()
        found = [self._entry(key) for key in keys]
        return sorted((one for one in found if one is not None), key=lambda one: (-one.used, one.key))

    def entry(self, key: str) -> CacheEntry:
        """The entry with this key, of which the first digits are enough, if no other entry has the same."""
        key = self._found(key)
        found = self._entry(key)
        if found is None:
            raise self._unknown(key)
        return found

    def _entry(self, key: str) -> CacheEntry | None:
        try:
            info = self._store.info(key)
            return None if info is None else _described(self._store, info)
        except Unavailable:
            raise
        except CacheError as error:
            return _entry_of(Info(key, 0, 0, 0.0, 0.0, 0, ()), trouble=str(error))

    def filling(self, key: str) -> str:
        """How runs shared the work of filling an entry, as its parts tell, or why they could not."""
        key = self._found(key)
        reason, plan = self._store.peek(key, IN_ORDER), self._store.peek(key, PLAN)
        if reason is not None:
            return in_order_because(reason.decode(errors="replace"))
        costs = Costs()
        numbers = numbers_of(self._store.names(key))
        for number in [*numbers[:1], *numbers[1:][-_SAMPLED:]]:
            data = self._store.peek(key, name_of(number))
            with suppress(CorruptRecord):
                part = decode(data or b"", documents.digest(plan or b""), number)
                if part.provenance is not None:
                    costs.add(part.provenance)
        return str(costs)

    def verify(
        self, key: str | None = None, *, progress: Callable[[int], None] | None = None
    ) -> list[CacheFinding]:
        """Check all items of an entry, or of all entries. Damage is a finding, and stays where it is: a run
        that meets it computes the part again.

        One part at a time is in memory. `progress` is called with the number of bytes checked so far.
        """
        findings: list[CacheFinding] = []
        checked = 0

        def report(size: int) -> None:
            nonlocal checked
            checked += size
            if progress is not None:
                progress(checked)

        for one in self._store.keys() if key is None else [self._found(key)]:
            findings += verify_entry(self._store, one, report)
        return findings

    def remove(self, key: str) -> None:
        """Remove an entry. Of its key, the first digits are enough, as for `entry`.

        CacheError, and it stays, when a live run has it open.
        """
        key = self._found(key)
        if not self._store.remove(key):
            raise CacheError(
                f"{self.location}: entry {key} is in use by {self._users(key)}. It was not removed."
            )

    def _found(self, key: str) -> str:
        if not isinstance(key, str) or not re.fullmatch(rf"[0-9a-f]{{{_LEAST_DIGITS},32}}", key):
            raise UsageError(
                f"{self.location}: {key!r} is no key of an entry: it has 32 hexadecimal digits, of which the "
                f"first {_LEAST_DIGITS} or more are enough."
            )
        keys = self._store.keys()
        found = [one for one in keys if one.startswith(key)]
        if not found:
            raise self._unknown(key)
        if len(found) > 1:
            raise UsageError(f"{self.location}: {key} may be {' or '.join(found)}: give more digits.")
        return found[0]

    def _unknown(self, key: str) -> UsageError:
        return UsageError(
            f"{self.location}: there is no entry {key}.\n"
            f"  To see those that there are:  feedline cache ls {self.location}"
        )

    def _users(self, key: str) -> str:
        info = self._store.info(key)
        return ", ".join(info.users if info is not None else ()) or "a run that could not leave its name"

    def evict(self, max_bytes: int | str) -> list[CacheEntry]:
        """Remove the entries that were not used for the longest time, until the rest has `max_bytes` at most,
        a number or a text like "100GB". Those that a live run has open stay. Gives those that went.

        CacheError when an entry that had to go can not be removed, because it is another user's, say.

        >>> Cache("a/directory/without/entries").evict("100GB")
        []
        """
        limit = limit_of(max_bytes)
        described = {entry.key: entry for entry in self.entries()}
        removed = eviction.evict(self._store, limit)
        return [described.get(info.key) or _entry_of(info) for info in removed]


def limit_of(max_bytes: int | str) -> int:
    return 0 if str(max_bytes) == "0" else bytes_of("evict", "max_bytes", max_bytes)


def _described(store: Store, info: Info) -> CacheEntry:
    data = store.peek(info.key, PLAN)
    plan, trouble = _decoded(data, Plan)
    # Before the names: when it is there, all parts are.
    manifest, more = _decoded(store.peek(info.key, MANIFEST), Manifest)
    if data is not None and manifest is not None and manifest.plan != documents.digest(data).hex():
        manifest, more = None, "the manifest is that of another plan"
    numbers = numbers_of(store.names(info.key))
    if data is None and numbers:
        trouble = "it has no plan"
    return _entry_of(info, plan, manifest, numbers, trouble or more)


def _decoded(data: bytes | None, kind: type[_Document]) -> tuple[_Document | None, str]:
    """The document, if there is a sound one, and else what is wrong with it."""
    try:
        return (None if data is None else documents.decode(data, kind)), ""
    except CorruptRecord as error:
        return None, error.what


def _entry_of(
    info: Info,
    plan: Plan | None = None,
    manifest: Manifest | None = None,
    numbers: Sequence[int] = (),
    trouble: str = "",
) -> CacheEntry:
    rows = None if plan is None or manifest is None else manifest.rows
    pipeline = {} if plan is None else plan.pipeline
    return CacheEntry(
        key=info.key,
        bytes=info.bytes,
        elements=None if rows is None else sum(rows),
        parts=len(numbers),
        parts_in_all=len(rows) if rows is not None else plan.parts if plan is not None else None,
        complete=rows is not None and set(numbers) >= set(range(len(rows))),
        steps=Fingerprint(pipeline, "").outline,
        made=info.made,
        used=info.used,
        hits=info.hits,
        users=tuple(info.users),
        trouble=trouble,
        pipeline=pipeline,
        sharing="" if plan is None else plan.sharing,
    )

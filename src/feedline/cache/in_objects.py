"""Entries in an object store, for runs on any hosts.

    <url>/entries/<key>                     the id of the entry's life, which begins when it is made
          lives/<key>/<life>/items/<name>
                             claims/<name>  written anew by its holder again and again
                             users/<token>  the same, by one that has the entry open
                             hits

An item is made by a put that fails where there is one, so the first wins. A claim is taken in the same way,
or over from a holder whose object has stayed the same for SILENCE seconds of this process's own clock, by a
put that fails where it has changed: the clocks of hosts are never compared.

Many objects cannot be deleted at once. So an entry is removed by deleting the one that names its life: from
then on nobody looks below that life, and the next that opens the entry begins another. One that opens an
entry first marks itself as a user of the life, and then looks whether the life still holds. One that removes
it first deletes the name, and then looks for users. So one of the two sees the other, and a life that has a
user gets its name back. A user is alive by the time of its last mark, by the clock of the store.

What was read or put is kept on this host too, in a directory (cache/copies), and read from there.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from feedline.cache import store
from feedline.cache.bucket import Bucket, Denied, Facts, Version
from feedline.cache.copies import LIFE, CopiedEntry, Copies
from feedline.cache.heartbeat import beat, rest
from feedline.cache.in_directory import DirectoryStore
from feedline.cache.object_marks import Mark, ObjectClaim, first_beat
from feedline.cache.store import Claim, Entry, Info, NoRoom, Store, checked_key, checked_name, is_key
from feedline.errors import CacheError


class ObjectStore(Store):
    def __init__(self, url: str, local: DirectoryStore | None = None) -> None:
        self._bucket = Bucket(url)
        self.location = self._bucket.url
        self._copies = Copies(self.location, local)
        self._ahead: float | None = None  # the clock of the store, of time.monotonic()

    def open(self, key: str) -> Entry:
        _name_of(key)
        try:
            self._probe()
            life, mark = self._begin(key)
        except Denied as denied:
            # It may still be read, if there is anything; where that is denied too, it is said here.
            return self._entry(key, self._life(key), None, str(denied))
        try:
            entry = self._entry(key, life, mark, None)
        except BaseException:
            mark.release()
            raise
        beat(mark)
        return entry

    def _life(self, key: str) -> str | None:
        """The present one of an entry."""
        found = self._bucket.get(_name_of(key))
        if found is None:
            return None
        life = bytes(found.data).decode(errors="replace")
        if not LIFE.fullmatch(life):
            raise CacheError(
                f"{self.location}/{_name_of(key)}: the object is not what feedline writes there.\n"
                "  Delete it: the entry is made again."
            )
        return life

    def _entry(self, key: str, life: str | None, mark: Mark | None, denied: str | None) -> Entry:
        copies = self._copies.open(key, life) if life is not None else None
        return ObjectEntry(self._bucket, _folder(key, life or "none"), mark, copies, denied)

    def _begin(self, key: str) -> tuple[str, Mark]:
        """A life of the entry that does not end while it has this mark."""
        while True:
            found = self._life(key)
            life = found or secrets.token_hex(8)
            mark = Mark(self._bucket, f"{_folder(key, life)}/users/{secrets.token_hex(8)}")
            if found is None:
                holds = self._bucket.create(_name_of(key), life.encode()) is not None
            else:
                holds = self._life(key) == life
            if holds:
                return life, mark
            mark.release()

    def _probe(self) -> None:
        """Does the store keep to conditions? Some that speak S3 pass over them, and overwrite."""
        if self._ahead is not None:
            return
        path = f"probes/{secrets.token_hex(8)}"
        first = self._bucket.create(path, b"first")
        try:
            kept = first is not None and self._bucket.create(path, b"second") is None
            if kept and first is not None:
                kept = self._bucket.replace(path, b"third", first) is not None
                kept = kept and self._bucket.replace(path, b"fourth", first) is None
            facts = self._bucket.head(path)
        finally:
            with suppress(CacheError):
                self._bucket.delete([path])
        if not kept or facts is None:
            raise CacheError(
                f"{self.location}: this object store does not keep to conditions of a put (If-None-Match, "
                "If-Match), so runs that share a cache there would overwrite what others made.\n"
                "  Use another: those of Amazon, Google and Azure do, and most newer servers that speak S3."
            )
        self._ahead = facts["last_modified"].timestamp() - time.monotonic()

    # Looking at entries

    def keys(self) -> list[str]:
        names = (facts["path"].rpartition("/")[2] for facts in self._bucket.all_below("entries"))
        return sorted(name for name in names if is_key(name))

    def peek(self, key: str, name: str) -> bytes | None:
        checked_name(name)
        life = self._life(key)
        item = self._bucket.get_large(f"{_folder(key, life)}/items/{name}") if life is not None else None
        return bytes(item.data) if item is not None else None

    def names(self, key: str) -> list[str]:
        _, found = self._look(key, "items")
        return sorted(facts["path"].rpartition("/")[2] for facts in found)

    def info(self, key: str) -> Info | None:
        life, found = self._look(key)
        made = self._bucket.head(_name_of(key))
        if life is None or made is None:
            return None
        folder = _folder(key, life)
        items = [facts["size"] for facts in found if facts["path"].startswith(f"{folder}/items/")]
        hits = self._bucket.get(f"{folder}/hits")
        users = [self._bucket.get(facts["path"]) for facts in self._alive(found)]
        return Info(
            key,
            sum(items),
            len(items),
            made["last_modified"].timestamp(),
            max(facts["last_modified"].timestamp() for facts in (made, *found)),
            _count(hits.data) if hits is not None else 0,
            [_text(user.data).partition("\n")[0] for user in users if user is not None],
        )

    def _look(self, key: str, folder: str = "") -> tuple[str | None, Sequence[Facts]]:
        """The entry's life, if there is one, and its objects: all that there were at one time."""
        while (life := self._life(key)) is not None:
            objects = self._bucket.all_below(f"{_folder(key, life)}/{folder}".rstrip("/"))
            if self._life(key) == life:  # so nobody had begun to delete them
                return life, objects
        return None, []

    def _alive(self, objects: Sequence[Facts]) -> list[Facts]:
        """The marks of users that are.

        They get twice the time: a store that was away hears of them late. It tells times in whole seconds.
        """
        ahead = self._ahead if self._ahead is not None else time.time() - time.monotonic()
        since = time.monotonic() + ahead - 2 * store.SILENCE - 1
        return [
            facts
            for facts in objects
            if facts["path"].rpartition("/")[0].endswith("/users")
            and facts["last_modified"].timestamp() >= since
        ]

    # Removing

    def remove(self, key: str) -> bool:
        life, objects = self._look(key)
        if life is not None:
            self._probe()  # for the time
            if self._alive(objects):
                return False
            self._bucket.delete([_name_of(key)])
        is_free = self._sweep(key)
        left = set(self._bucket.folders("lives")) - set(self.keys())
        for other in filter(is_key, left):  # what one that was killed was about to remove
            self._sweep(other)
        return is_free

    def _sweep(self, key: str) -> bool:
        """Delete the entry's lives but its present one and those in use. False when there are such in use."""
        lives: dict[str, list[Facts]] = defaultdict(list)
        for facts in self._bucket.all_below(f"lives/{key}"):
            lives[facts["path"].split("/")[2]].append(facts)
        if not lives:
            return True
        self._probe()
        # Looked up after the listing: a life that came to hold before is either this one, or was removed.
        present = self._life(key)
        is_free = True
        for life, objects in lives.items():
            if self._alive(objects):
                is_free = False
                if present is None and self._bucket.create(_name_of(key), life.encode()) is not None:
                    present = life
            elif life != present:
                self._bucket.delete([facts["path"] for facts in objects])
                self._copies.remove(key, life)
        return is_free


class ObjectEntry(Entry):
    def __init__(
        self,
        bucket: Bucket,
        folder: str,
        mark: Mark | None,
        copies: CopiedEntry | None,
        denied: str | None,
    ) -> None:
        self._bucket = bucket
        self._folder = folder
        self._mark = mark
        self._copies = copies
        self._denied = denied  # why nothing can be put; as text, because an error has the frames of the open
        self._seen: dict[str, tuple[Any, float]] = {}  # of claims: the version, and since when
        self._locks = [threading.Lock() for _ in range(64)]

    def _item(self, name: str) -> str:
        return f"{self._folder}/items/{checked_name(name)}"

    def read(self, name: str) -> Any | None:
        path = self._item(name)
        kept = self._copies.read(name) if self._copies is not None else None
        if kept is not None:
            return kept
        found = self._bucket.get_large(path)
        if found is None:
            return None
        if self._copies is not None:
            self._copies.put(name, found.data)
            kept = self._copies.read(name)
        return kept if kept is not None else found.data

    def has(self, name: str) -> bool:
        path = self._item(name)
        return (self._copies is not None and self._copies.has(name)) or self._bucket.head(path) is not None

    def put(self, name: str, data: Sequence[Any], claim: Claim | None = None) -> bool:
        path = self._item(name)
        assert claim is None or isinstance(claim, ObjectClaim)
        if claim is not None and not claim.is_of_this_process:
            return False
        self._check_writable()
        # One immutable copy, because a put that was interrupted goes on unseen.
        whole = b"".join(data)
        try:
            with self._one_at_a_time(name):
                if self._bucket.head(path) is not None:  # which is cheaper to find out than by sending it all
                    return False
                if claim is not None and not claim.hold():
                    return False
                if not self._bucket.create_large(path, whole):
                    return False
        except Denied as denied:
            raise NoRoom(str(denied)) from denied
        if self._copies is not None:
            self._copies.put(name, whole)
        return True

    def _one_at_a_time(self, name: str) -> threading.Lock:
        """Threads of one process need not compete over the network: some stores are slow to judge."""
        return self._locks[hash(name) % len(self._locks)]

    def _check_writable(self) -> None:
        self._bucket.check_fork()  # before any lock, which another thread may have held at that moment
        if self._denied is not None:
            raise NoRoom(self._denied)

    def drop(self, name: str, data: Any) -> None:
        path = self._item(name)
        if self._copies is not None:
            self._copies.drop(name, data)
        found = self._bucket.get_large(path)
        # Otherwise only the copy on this host was damaged, or it has been made again.
        if found is not None and memoryview(found.data) == memoryview(data):
            with suppress(Denied):
                self._bucket.delete([path])

    def claim(self, name: str) -> Claim | None:
        path = f"{self._folder}/claims/{checked_name(name)}"
        self._check_writable()
        token = secrets.token_hex(8)
        try:
            with self._one_at_a_time(name):
                version = self._take(name, path, first_beat(token))
        except Denied as denied:
            raise NoRoom(str(denied)) from denied
        return ObjectClaim(self._bucket, path, token, version) if version is not None else None

    def _take(self, name: str, path: str, data: bytes) -> Version | None:
        now = time.monotonic()
        found = self._bucket.get(path)
        if found is None:
            return self._bucket.create(path, data)
        if self._is_silent(name, found.version, now):
            return self._bucket.replace(path, data, found.version)
        return None

    def _is_silent(self, name: str, version: Version, now: float) -> bool:
        seen, since = self._seen.get(name, (None, now))
        if seen != version:
            since = now
        self._seen[name] = version, since
        return now - since > store.SILENCE

    def count_hit(self) -> None:
        path = f"{self._folder}/hits"
        if self._denied is not None:
            return
        with suppress(Denied, NoRoom):
            for _ in range(10):  # against others that count at the same time
                found = self._bucket.get(path)
                count = _count(found.data) if found is not None else 0
                data = f"{count + 1} {secrets.token_hex(8)}".encode()
                if found is None:
                    counted = self._bucket.create(path, data)
                else:
                    counted = self._bucket.replace(path, data, found.version)
                if counted is not None:
                    return

    def close(self) -> None:
        mark, self._mark = self._mark, None
        if mark is not None:
            rest(mark)
            mark.release()
        if self._copies is not None:
            self._copies.close()


def _count(data: Any) -> int:
    number = _text(data).partition(" ")[0]
    return int(number) if number.isdecimal() else 0


def _text(data: Any) -> str:
    return bytes(data).decode(errors="replace")


def _name_of(key: str) -> str:
    return f"entries/{checked_key(key)}"


def _folder(key: str, life: str) -> str:
    return f"lives/{key}/{life}"

"""Entries in a Redis server, version 5 or newer, for runs on different hosts.

    feedline:{<key>}:entry         a hash: the items by name, <name>:blob for one that lies elsewhere,
                                   and facts (:id :made :used :hits :fence :place)
    feedline:{<key>}:users         who has it open, each with the time when it is taken for dead
    feedline:{<key>}:claim:<name>  its holder; ends by itself after `SILENCE`

An entry is one hash, so that whatever takes it away, `remove` or Redis itself when its memory is full, takes
all of it: parts made by one plan are never beside those of another. For the same reason an entry that was
taken away while it was open is not filled further: `:id` tells it from the next one under its key.

What lies elsewhere is in `blobs`, in an entry that has the id for its key. Beside it lies a token, which is
`:place` here too: where it is not found, that is not the place, and says nothing about what was put there.

Each change is one script, so nothing comes between looking and doing. All times are the server's.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from feedline.cache import store
from feedline.cache.heartbeat import beat, rest
from feedline.cache.redis_client import RedisClient
from feedline.cache.store import (
    Claim,
    Entry,
    Info,
    NoRoom,
    Store,
    checked_key,
    checked_name,
    is_key,
)
from feedline.errors import CacheError
from feedline.records.lock_file import who_i_am

# Redis does one thing at a time: while it moves an item, every claim and heartbeat of all runs waits. Half a
# megabyte is a fraction of a millisecond. Larger ones go to `blobs`, if there is such a place.
SMALL = 512 * 1024
# Redis takes no longer value ("proto-max-bulk-len").
LIMIT = 512 * 1024 * 1024

_PLACE = "place"  # the item of `blobs` with the token
_ID = re.compile(rb"[0-9a-f]{32}")

_STAY = """
local function stay(users, me, milliseconds)
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  redis.call('ZREMRANGEBYSCORE', users, '-inf', now)
  redis.call('ZADD', users, now + milliseconds, me)
  redis.call('PEXPIRE', users, milliseconds)
  return string.format('%d.%06d', time[1], time[2])
end
"""

# KEYS: entry, users. ARGV: a new id, me, milliseconds. Gives the id and the place.
_OPEN = f"""{_STAY}
local new = redis.call('HSETNX', KEYS[1], ':id', ARGV[1])
local now = stay(KEYS[2], ARGV[2], ARGV[3])
redis.call('HSET', KEYS[1], ':used', now)
if new == 1 then redis.call('HSET', KEYS[1], ':made', now) end
return redis.call('HMGET', KEYS[1], ':id', ':place')
"""

# KEYS: users. ARGV: me, milliseconds.
_RENEW_USER = f"{_STAY} stay(KEYS[1], ARGV[1], ARGV[2])"

_ALIVE = """
local function alive(users)
  local time = redis.call('TIME')
  return redis.call('ZRANGEBYSCORE', users, '(' .. time[1] * 1000 + math.floor(time[2] / 1000), '+inf')
end
"""

# KEYS: entry, users. Gives the id, empty when there was no entry, or nothing when it is in use.
_REMOVE = f"""{_ALIVE}
if #alive(KEYS[2]) > 0 then return false end
local id = redis.call('HGET', KEYS[1], ':id') or ''
redis.call('UNLINK', KEYS[1], KEYS[2])
return id
"""

# KEYS: entry, users.
_INFO = f"""{_ALIVE}
if redis.call('HEXISTS', KEYS[1], ':id') == 0 then return false end
local bytes, items = 0, 0
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  if string.sub(field, 1, 1) ~= ':' then
    items = items + 1
    if string.sub(field, -5) == ':blob' then
      local size = string.match(redis.call('HGET', KEYS[1], field), '^%d+')
      if size and #size < 16 then bytes = bytes + tonumber(size) end
    else
      bytes = bytes + redis.call('HSTRLEN', KEYS[1], field)
    end
  end
end
local facts = redis.call('HMGET', KEYS[1], ':made', ':used', ':hits')
return {{bytes, items, facts[1], facts[2], facts[3] or '0', alive(KEYS[2])}}
"""

# KEYS: entry, claim. ARGV: id, the claim's value or '', name, field, data. A marker that is there already is
# this very one when the script runs a second time, because each names a blob of its own.
_PUT = """
if redis.call('HGET', KEYS[1], ':id') ~= ARGV[1] then return -1 end
if ARGV[2] ~= '' and redis.call('GET', KEYS[2]) ~= ARGV[2] then return 0 end
local marker = redis.call('HGET', KEYS[1], ARGV[3] .. ':blob')
if marker then return (ARGV[3] ~= ARGV[4] and marker == ARGV[5]) and 1 or 0 end
if ARGV[3] ~= ARGV[4] and redis.call('HEXISTS', KEYS[1], ARGV[3]) == 1 then return 0 end
return redis.call('HSETNX', KEYS[1], ARGV[4], ARGV[5])
"""

# KEYS: entry. ARGV: id, the token of a place. Gives that of the place which holds.
_SETTLE = """
if redis.call('HGET', KEYS[1], ':id') ~= ARGV[1] then return -1 end
redis.call('HSETNX', KEYS[1], ':place', ARGV[2])
return redis.call('HGET', KEYS[1], ':place')
"""

# KEYS: entry. ARGV: id, field, SHA-1 of what is in it.
_DROP = """
if redis.call('HGET', KEYS[1], ':id') ~= ARGV[1] then return end
local data = redis.call('HGET', KEYS[1], ARGV[2])
if data and redis.sha1hex(data) == ARGV[3] then redis.call('HDEL', KEYS[1], ARGV[2]) end
"""

# KEYS: entry, claim. ARGV: id, a token, milliseconds. Gives the claim's value, nothing when another has it.
_CLAIM = """
if redis.call('HGET', KEYS[1], ':id') ~= ARGV[1] then return -1 end
local held = redis.call('GET', KEYS[2])
if held then return string.match(held, ' (.*)') == ARGV[2] and held or false end
local value = redis.call('HINCRBY', KEYS[1], ':fence', 1) .. ' ' .. ARGV[2]
redis.call('SET', KEYS[2], value, 'NX', 'PX', ARGV[3])
return value
"""

# KEYS: claim. ARGV: its value, milliseconds.
_RENEW = "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end"

# KEYS: claim. ARGV: its value.
_RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end"

# KEYS: entry. ARGV: id.
_COUNT_HIT = """
if redis.call('HGET', KEYS[1], ':id') == ARGV[1] then redis.pcall('HINCRBY', KEYS[1], ':hits', 1) end
"""


class RedisStore(Store):
    def __init__(self, url: str, blobs: Store | None = None) -> None:
        """`blobs` is one place for all runs, and it is an error to use an entry with another one. An item
        whose blob is not found there is taken for lost. What a killed process left there is nobody's."""
        self._client = RedisClient(url)
        self._blobs = blobs
        self.location = self._client.location

    def open(self, key: str) -> Entry:
        return RedisEntry(self._client, checked_key(key), self._blobs)

    def keys(self) -> list[str]:
        found = (name.decode(errors="replace") for name in self._client.scan(_key_of("*", "entry")))
        keys = (name.removeprefix("feedline:{").removesuffix("}:entry") for name in found)
        return sorted(key for key in keys if is_key(key))

    def peek(self, key: str, name: str) -> bytes | None:
        id, data, marker, place = _read(self._client, checked_key(key), checked_name(name))
        if marker is None or self._blobs is None:
            return None if data is None else bytes(data)
        blob = _Blob.told_by(marker)
        if blob is None:
            return None
        elsewhere = _key_in_blobs(self.location, key, id)
        found = self._blobs.peek(elsewhere, blob.name)
        if found is None and self._blobs.peek(elsewhere, _PLACE) != place:
            raise _another_place(self.location, key, self._blobs.location)
        return found

    def names(self, key: str) -> list[str]:
        fields = self._client.call("hkeys", _key_of(checked_key(key), "entry"))
        names = (field.decode(errors="replace") for field in fields)
        return sorted(name.removesuffix(":blob") for name in names if not name.startswith(":"))

    def info(self, key: str) -> Info | None:
        found = self._client.run(_INFO, [_key_of(checked_key(key), "entry"), _key_of(key, "users")])
        if found is None:
            return None
        bytes_, items, made, used, hits, users = found
        lines = [user.decode(errors="replace").partition(" ")[2] for user in users]
        return Info(key, bytes_, items, _number(made), _number(used), int(_number(hits)), lines)

    def remove(self, key: str) -> bool:
        id = self._client.run(_REMOVE, [_key_of(checked_key(key), "entry"), _key_of(key, "users")])
        if id and self._blobs is not None and _ID.fullmatch(id):
            self._blobs.remove(id.decode())
        return id is not None


def _drop_tracebacks(error: BaseException | None) -> None:
    while error is not None:
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


class RedisEntry(Entry):
    """In use as long as the heartbeat renews it, as a claim is held."""

    def __init__(self, client: RedisClient, key: str, blobs: Store | None) -> None:
        self._client = client
        self._key = key
        self._me = f"{secrets.token_hex(8)} {who_i_am()}".encode(errors="replace")
        self._process = os.getpid()
        self._closing = threading.Lock()
        self._is_open = True
        self._denied: str | None = None  # why nothing can be put; as text, because an error has this frame
        self._blobs: Entry | None = None
        self._blobs_at = "" if blobs is None else blobs.location
        try:
            arguments = (secrets.token_hex(16), self._me, _silence())
            keys = [self._name("entry"), self._name("users")]
            self._id, self._place = client.run(_OPEN, keys, *arguments)
            beat(self)
        except NoRoom as error:
            self._denied = str(error)  # what is there may still be read
            _drop_tracebacks(error)  # whose frames have this entry, in cycles since Python 3.13
            self._id, self._place = client.call("hmget", self._name("entry"), ":id", ":place")
        if blobs is not None and self._id is not None:
            try:
                elsewhere = _key_in_blobs(client.location, key, self._id)
                # Before it is opened there, which would make one in a place that is not meant.
                if self._place is not None and blobs.peek(elsewhere, _PLACE) != self._place:
                    raise self._another_place()
                self._blobs = blobs.open(elsewhere)
            except BaseException:
                self.close()
                raise

    def _name(self, *parts: str) -> str:
        return _key_of(self._key, *parts)

    def read(self, name: str) -> Any | None:
        id, data, marker, place = _read(self._client, self._key, checked_name(name))
        if id is None or id != self._id:
            return None
        if marker is None:
            return data
        blob = _Blob.told_by(marker)
        if blob is None:
            self._drop_field(name + ":blob", marker)
            return None
        if self._blobs is None:
            raise CacheError(
                f"{self._client.location}: {name} of the entry {self._key} is large, and lies where the run "
                "that made it said.\n  Say so here too:  cache(..., blobs=...)"
            )
        data = self._blobs.read(blob.name)
        if data is None:
            self._check_place(self._blobs, place)
        if data is None or len(data) != blob.size:
            self._drop_field(name + ":blob", marker)
            return None
        return data

    def _check_place(self, blobs: Entry, place: bytes | None) -> None:
        found = blobs.read(_PLACE)
        if found is None or bytes(found) != place:
            raise self._another_place()

    def _another_place(self) -> CacheError:
        return _another_place(self._client.location, self._key, self._blobs_at)

    def has(self, name: str) -> bool:
        entry = self._name("entry")
        # The id comes last: when it is still ours, what was found before it is ours too.
        *found, id = self._client.call_all(
            ("HEXISTS", entry, checked_name(name)), ("HEXISTS", entry, name + ":blob"), ("HGET", entry, ":id")
        )
        return any(found) and id == self._id

    def put(self, name: str, data: Sequence[Any], claim: Claim | None = None) -> bool:
        checked_name(name)
        self._check_writable()
        assert claim is None or isinstance(claim, RedisClaim)
        if claim is not None and not claim.is_mine:
            return False
        size = sum(memoryview(one).nbytes for one in data)
        if self._blobs is not None and size > SMALL:
            return self._put_blob(self._blobs, name, data, size, claim)
        if size > LIMIT:
            raise NoRoom(
                f"{self._client.location}: {name} of the entry {self._key} has {size:,} bytes; Redis takes "
                f"{LIMIT:,} at most.\n"
                "  Say where large items go, a directory or an object store:  cache(..., blobs=...)"
            )
        return self._publish(name, name, b"".join(data), claim)

    def _put_blob(self, blobs: Entry, name: str, data: Sequence[Any], size: int, claim: Claim | None) -> bool:
        if self.has(name):
            return False
        self._settle(blobs)
        # A name of its own, because one who was killed may have left a blob without a marker.
        blob = _Blob(size, f"{name[:40]}-{secrets.token_hex(8)}")
        blobs.put(blob.name, data)
        try:
            published = self._publish(name, name + ":blob", blob.marker, claim)
        except NoRoom:
            _forget(blobs, blob.name)
            raise
        if not published:
            _forget(blobs, blob.name)
        return published

    def _settle(self, blobs: Entry) -> None:
        """Make this the place of the entry's blobs, unless it has one."""
        if self._place is None:
            blobs.put(_PLACE, [secrets.token_hex(16).encode()])
            token = blobs.read(_PLACE)
            if token is None:
                raise self._another_place()
            place = self._client.run(_SETTLE, [self._name("entry")], self._id, bytes(token))
            if place == -1:
                raise self._gone()
            if place != bytes(token):
                raise self._another_place()
            self._place = place

    def _publish(self, name: str, field: str, data: bytes, claim: Claim | None) -> bool:
        value = claim.value if isinstance(claim, RedisClaim) else b""
        keys = [self._name("entry"), self._name("claim", name)]
        done = self._client.run(_PUT, keys, self._id, value, name, field, data)
        if done < 0:
            raise self._gone()
        return bool(done)

    def _check_writable(self) -> None:
        if self._denied is not None:
            raise NoRoom(self._denied)

    def _gone(self) -> NoRoom:
        return NoRoom(
            f"{self._client.location}: the entry {self._key} was taken away while it was open: Redis needed "
            "the memory, or began anew without its data, or this process was stopped for long.\n"
            "  Give Redis more memory (maxmemory) or have it keep its data (appendonly); start the run again."
        )

    def drop(self, name: str, data: Any) -> None:
        marker = self._client.call("hget", self._name("entry"), checked_name(name) + ":blob")
        if marker is None:
            self._drop_field(name, data)
            return
        blob = _Blob.told_by(marker)
        if self._blobs is not None and blob is not None:
            current = self._blobs.read(blob.name)
            if current is not None and memoryview(current) == memoryview(data):
                self._drop_field(name + ":blob", marker)
                self._blobs.drop(blob.name, current)

    def _drop_field(self, field: str, data: Any) -> None:
        digest = hashlib.sha1(data, usedforsecurity=False).hexdigest()
        with suppress(NoRoom):
            self._client.run(_DROP, [self._name("entry")], self._id or b"", field, digest)

    def claim(self, name: str) -> Claim | None:
        checked_name(name)
        self._check_writable()
        keys = [self._name("entry"), self._name("claim", name)]
        value = self._client.run(_CLAIM, keys, self._id, secrets.token_hex(8), _silence())
        if value == -1:
            raise self._gone()
        return None if value is None else RedisClaim(self._client, keys[1], value)

    def count_hit(self) -> None:
        with suppress(NoRoom):
            self._client.run(_COUNT_HIT, [self._name("entry")], self._id or b"")

    def renew(self) -> None:
        """Tell that it is in use. Where Redis has forgotten it, it learns it again."""
        with self._closing:
            if self._is_open:
                with suppress(CacheError):
                    self._client.run(_RENEW_USER, [self._name("users")], self._me, _silence())

    def close(self) -> None:
        if os.getpid() != self._process:
            return  # it is the parent's
        rest(self)
        with self._closing:
            was_open, self._is_open = self._is_open, False
        if was_open and self._blobs is not None:
            self._blobs.close()  # first, so that who removes the entry can remove them too
        if was_open and self._denied is None:
            with suppress(CacheError):  # it ends by silence too
                self._client.call("zrem", self._name("users"), self._me)


class RedisClaim(Claim):
    """Its value is a number that only grows, the fencing token, and chance, should Redis count anew."""

    def __init__(self, client: RedisClient, key: str, value: bytes) -> None:
        self._client = client
        self._key = key
        self._process = os.getpid()
        self.value = value

    @property
    def is_mine(self) -> bool:
        """Not in a forked child. Whether it was lost meanwhile, Redis knows."""
        return os.getpid() == self._process

    def renew(self) -> None:
        with suppress(CacheError):
            self._client.run(_RENEW, [self._key], self.value, _silence())

    def release(self) -> None:
        if self.is_mine:
            with suppress(CacheError):
                self._client.run(_RELEASE, [self._key], self.value)


class _Blob(NamedTuple):
    """An item that lies elsewhere, as its marker tells."""

    size: int
    name: str

    @property
    def marker(self) -> bytes:
        return f"{self.size} {self.name}".encode()

    @classmethod
    def told_by(cls, marker: bytes) -> _Blob | None:
        """None where it is damaged: then the item is lost."""
        found = re.fullmatch(rb"(\d{1,15}) ([a-z0-9-]{1,64})", marker)
        return None if found is None else cls(int(found[1]), found[2].decode())


def _key_of(key: str, *parts: str) -> str:
    """The braces keep an entry together in a cluster."""
    return ":".join((f"feedline:{{{key}}}", *parts))


def _read(client: RedisClient, key: str, name: str) -> tuple[Any, Any, Any, Any]:
    """The id of the entry; the item; the marker of one that lies elsewhere; and the place where."""
    fields = (":id", name, name + ":blob", ":place")
    id, data, marker, place = client.call("hmget", _key_of(key, "entry"), *fields)
    return id, data, marker, place


def _key_in_blobs(location: str, key: str, id: bytes) -> str:
    if not _ID.fullmatch(id):
        raise CacheError(
            f"{location}: the entry {key} is not what feedline writes there: its id is damaged.\n"
            f"  Remove it:  feedline cache rm {location} {key}"
        )
    return id.decode()


def _number(fact: bytes | None) -> float:
    """0 where it is damaged."""
    return float(fact) if fact is not None and re.fullmatch(rb"\d{1,10}(\.\d{1,6})?", fact) else 0.0


def _another_place(location: str, key: str, blobs: str) -> CacheError:
    return CacheError(
        f"{location}: the large items of the entry {key} are not in {blobs}: they were put elsewhere, or it "
        "is not mounted here, or was emptied.\n"
        "  Give the same place in all runs:  cache(..., blobs=...)\n"
        f"  Should they be lost, remove the entry:  feedline cache rm {location} {key}"
    )


def _forget(blobs: Entry, blob: str) -> None:
    data = blobs.read(blob)
    if data is not None:
        blobs.drop(blob, data)


def _silence() -> int:
    return int(store.SILENCE * 1000)

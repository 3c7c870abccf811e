"""Which store a location means."""

from __future__ import annotations

import os

from feedline.cache.in_directory import DirectoryStore
from feedline.cache.store import Store
from feedline.errors import UsageError


def absolute(location: str | bytes | os.PathLike[str]) -> str:
    """The location, the same in a process or at a time with another working directory."""
    text = os.fsdecode(location)
    return text if "://" in text else os.path.abspath(text)


def open_store(location: str | os.PathLike[str], *, blobs: str | os.PathLike[str] | None = None) -> Store:
    """A directory, `redis://host:port/db`, or the URL of an object store, `s3://bucket/prefix` say.

    `blobs` is where Redis keeps what is too large for it: a directory or an object store.
    """
    text = os.fspath(location)
    scheme, found, _ = text.partition("://")
    if found and scheme in ("redis", "rediss", "redis+unix"):
        from feedline.cache.in_redis import RedisStore

        return RedisStore(text, open_store(blobs) if blobs is not None else None)
    if blobs is not None:
        raise UsageError(f"cache({text!r}, blobs=...): only a cache in Redis has its large parts elsewhere.")
    if found:
        from feedline.cache.in_objects import ObjectStore

        return ObjectStore(text)
    return DirectoryStore(text)

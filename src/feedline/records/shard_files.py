"""Files that belong together: the names of shards, and the manifest that says which of them are the set.

    data-00000-of-00016.tfrecord    a shard, with its index .data-00000-of-00016.tfrecord.flindex beside it
    .data.manifest.json             which shards there are, and what is in them
    .data.set-<id>/                 shards of the set <id> that do not yet have their names

A set is there as soon as its manifest is; then its shards get their names. So a shard is looked for first in
the directory of its set. A manifest comes from a stranger: nothing in it is believed that can be checked.

Older versions wrote data.manifest.json. Where both are there, the hidden one counts: a writer puts it in
place first and then removes the other.
"""

from __future__ import annotations

import os
import re
import time
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
import numpy as np

from feedline.errors import CorruptRecord, UsageError
from feedline.records.beside import MANIFEST_SUFFIX, index_path
from feedline.records.feature_texts import Entry, FeatureTexts, Size

VERSION: Literal[1] = 1

_MAX_MANIFEST = 1 << 28  # bytes, of about a million shards
_MOST_SHARDS = 1_000_000
PATIENCE = 1.0  # seconds for a commit that is giving shards their names
_MAX_PREFIX = 180  # bytes, so that every name made of it has less than 255

Id: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{16}\Z")]


class Shard(Entry, frozen=True):
    name: str
    records: Size
    bytes: Size
    crc32c: Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]  # of the file, compressed or not


class Progress(Entry, frozen=True):
    """How far a producer got: what it wrote, and the key that it gave with the last of it, as JSON."""

    id: str
    name: str | None  # None: the process that opened the writer, for itself
    records: Size
    last_key: str = "null"


class Manifest(Entry, frozen=True):
    version: Literal[1]
    id: Id
    feedline: str  # the version that wrote it
    compression: Literal["none", "gzip", "zlib"]
    shards: tuple[Shard, ...]
    producers: tuple[Progress, ...]
    features: FeatureTexts | None  # None when only bytes were written

    def files(self) -> set[str]:
        """The names of all files that belong to the set."""
        names = {shard.name for shard in self.shards}
        return names | {index_path(name) for name in names if self.compression == "none"}


class _Versioned(msgspec.Struct):
    version: int


def check_prefix(prefix: Any) -> str:
    """The prefix, if names can be made of it.

    >>> check_prefix("train")
    'train'
    """
    if not isinstance(prefix, str) or not prefix:
        raise UsageError(f"prefix={prefix!r}: give the text that the names of the files begin with.")
    if prefix.startswith((".", "_")):
        raise UsageError(
            f"prefix={prefix!r}: files whose names begin with . or _ are passed over by readers."
        )
    if "/" in prefix or "\0" in prefix:
        raise UsageError(
            f"prefix={prefix!r}: a name of a file cannot hold / or NUL. Give directory= the path."
        )
    try:
        size = len(prefix.encode())
    except UnicodeEncodeError:
        raise UsageError(f"prefix={prefix!r}: it cannot be encoded as UTF-8.") from None
    if size > _MAX_PREFIX:
        raise UsageError(f"prefix is {size} bytes long, and names of files have room for {_MAX_PREFIX}.")
    return prefix


def check_shards(step: str, shards: Any) -> int:
    """How many there are to be, if there can be so many."""
    is_number = isinstance(shards, int | np.integer) and not isinstance(shards, bool)
    if not is_number or not 1 <= shards <= _MOST_SHARDS:
        raise UsageError(f"{step}(shards={shards!r}): give a number between 1 and {_MOST_SHARDS:,}.")
    return int(shards)


def shard_name(prefix: str, number: int, count: int) -> str:
    """
    >>> shard_name("data", 0, 16)
    'data-00000-of-00016.tfrecord'
    """
    digits = max(5, len(str(count)))  # always the same, so that names sort as numbers do
    return f"{prefix}-{number:0{digits}}-of-{count:0{digits}}.tfrecord"


def is_shard_name(prefix: str, name: str) -> bool:
    return prefix != "" and prefix_of(name) == prefix


def prefix_of(name: str) -> str | None:
    """That of the name of a shard; None if it is not one.

    >>> prefix_of("data-00000-of-00016.tfrecord")
    'data'
    """
    # Asked for each of many files: most names are told by their end.
    if not name.endswith(".tfrecord") or "-of-" not in name:
        return None
    found = re.fullmatch(r"(.+)-\d{5,}-of-\d{5,}\.tfrecord", name, re.ASCII | re.DOTALL)
    return found[1] if found else None


def manifest_path(directory: str, prefix: str) -> str:
    """Where a manifest is written."""
    return os.path.join(directory, f".{prefix}{MANIFEST_SUFFIX}")


def visible_manifest_path(directory: str, prefix: str) -> str:
    """Where older versions wrote it."""
    return os.path.join(directory, prefix + MANIFEST_SUFFIX)


def manifest_paths(directory: str, prefix: str) -> tuple[str, ...]:
    """Where to look for it, in this order: the first that is there counts.

    The hidden one is looked for twice. It may have been put in place, and the other removed, in between.
    """
    hidden = manifest_path(directory, prefix)
    return hidden, visible_manifest_path(directory, prefix), hidden


def prefix_of_manifest(name: str) -> str | None:
    """That of the name of a manifest, of any version; None if it is not one.

    >>> prefix_of_manifest(".data.manifest.json"), prefix_of_manifest("data.manifest.json")
    ('data', 'data')
    """
    prefix = name.removesuffix(MANIFEST_SUFFIX).removeprefix(".")
    return prefix if name.endswith(MANIFEST_SUFFIX) and prefix and prefix[0] not in "._" else None


def is_manifest(path: str) -> bool:
    """Does it begin as what a writer of feedline's leaves?"""
    try:
        with open(path, "rb") as file:
            begin = file.read(200)
    except OSError:
        return False
    return re.match(rb'\{\s*"version":\s*\d+,\s*"id":\s*"[0-9a-f]{16}"', begin) is not None


def set_path(directory: str, prefix: str, id: str) -> str:
    return os.path.join(directory, f".{prefix}.set-{id}")


def hidden_ids(directory: str, prefix: str, role: str) -> list[str]:
    """Those of the directories `.<prefix>.<role>-<id>` that are there."""
    begin = f".{prefix}.{role}-"
    names = (name.removeprefix(begin) for name in os.listdir(directory) if name.startswith(begin))
    return sorted(name for name in names if re.fullmatch("[0-9a-f]{16}", name))


def read_manifest(directory: str, prefix: str) -> Manifest | None:
    """None when there is none; CorruptRecord when it is not what a writer of feedline leaves."""
    for path in manifest_paths(directory, prefix):
        try:
            with open(path, "rb") as file:
                text = file.read(_MAX_MANIFEST + 1)
        except FileNotFoundError:
            continue
        return _parsed(path, prefix, text)
    return None


def _parsed(path: str, prefix: str, text: bytes) -> Manifest:
    try:
        if len(text) > _MAX_MANIFEST:
            raise ValueError(f"it is larger than {_MAX_MANIFEST:,} bytes")
        version = msgspec.json.decode(text, type=_Versioned).version
        if version != VERSION:
            raise ValueError(f"it is of version {version}, and this feedline knows {VERSION}")
        manifest = msgspec.json.decode(text, type=Manifest)
        for number, shard in enumerate(manifest.shards):
            expected = shard_name(prefix, number, len(manifest.shards))
            if shard.name != expected:
                raise ValueError(f"shard {number} has the name {shard.name!r}, not {expected!r}")
    except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
        raise CorruptRecord(
            f"it is no manifest that can be read: {error}",
            path=path,
            remedy="To read files whatever it says, name them with a glob.\n"
            "To have them read without it, remove it.",
        ) from None
    return manifest


def members(directory: str, names: list[str]) -> list[str] | None:
    """The paths that stand for these names of the directory: of what has a manifest, the shards in it.

    None when a writer is giving shards their names just now, and the names must be listed again.
    """
    sets = {prefix for name in names if (prefix := prefix_of_manifest(name)) is not None}
    if not sets:
        return [os.path.join(directory, name) for name in names]
    found = [
        os.path.join(directory, name)
        for name in names
        if prefix_of_manifest(name) is None and not any(is_shard_name(prefix, name) for prefix in sets)
    ]
    for prefix in sets:
        manifest = read_manifest(directory, prefix)
        if manifest is None:
            return None
        found += _shards(directory, prefix, manifest)
    return sorted(found, key=os.path.basename)


def _shards(directory: str, prefix: str, manifest: Manifest) -> list[str]:
    hidden = set_path(directory, prefix, manifest.id)
    # Its writer is moving them, which is done in a moment; or it was killed, and they stay until the next.
    until = time.monotonic() + PATIENCE
    while os.path.isdir(hidden) and time.monotonic() < until:
        time.sleep(0.005)
    paths = []
    for shard in manifest.shards:
        path = os.path.join(hidden, shard.name)
        paths.append(path if os.path.exists(path) else os.path.join(directory, shard.name))
    return paths

"""A set of shards takes the place of the one before it: readers see either, never a mixture.

The new shards lie in the hidden directory of their set, on the disk for good. Then the manifest is renamed
into place: that is the commit. What comes after only gives shards their names and removes those of the old
set; if it is cut short, the next writer does it again. Only who holds the directory (records/holder) may call
what is here.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress

import msgspec

from feedline.errors import UsageError, WriteError
from feedline.records.beside import index_paths
from feedline.records.new_file import sync_directory
from feedline.records.shard_files import (
    Manifest,
    hidden_ids,
    is_shard_name,
    manifest_path,
    read_manifest,
    set_path,
    visible_manifest_path,
)

_MANIFEST = "manifest.json"
_REPLACED = "replaced.json"  # the names of the old set, whose manifest is gone when they are removed


def check_strangers(directory: str, prefix: str, committed: Manifest | None) -> None:
    """UsageError when there are files with the names of shards that no writer of feedline's made."""
    known = {shard.name for shard in committed.shards} if committed is not None else set()
    strangers = [n for n in sorted(os.listdir(directory)) if is_shard_name(prefix, n) and n not in known]
    if strangers:
        more = f" and {len(strangers) - 1:,} more" if len(strangers) > 1 else ""
        raise UsageError(
            f"{directory} holds {strangers[0]}{more}, of which no manifest tells. Together with new shards "
            "they would be read as one set.\n  Move them away, or write with another prefix=."
        )


def commit(
    directory: str, prefix: str, id: str, replaced: Manifest | None, make: Callable[[str], Manifest]
) -> None:
    """Put the set `id` in the place of the old one: `make` writes its shards into a directory, and tells of
    them. If that fails, nothing of it stays."""
    place = set_path(directory, prefix, id)
    try:
        os.mkdir(place)
        manifest = make(place)
        publish(directory, prefix, manifest, replaced)
    except BaseException:
        if getattr(read_manifest(directory, prefix), "id", None) != id:
            shutil.rmtree(place, ignore_errors=True)
        raise
    try:
        finish(directory, prefix, manifest)
    except OSError as error:
        raise WriteError(
            error.errno,
            f"{directory}: the set is committed, but not all files have their names: {error.strerror}. "
            "feedline reads it all the same.\n"
            "  When the cause is gone, the next who writes here gives them their names.",
        ) from error


def publish(directory: str, prefix: str, manifest: Manifest, replaced: Manifest | None) -> None:
    """Commit the shards that lie in the directory of the set: then finish() gives them their names."""
    place = set_path(directory, prefix, manifest.id)
    names = [shard.name for shard in replaced.shards] if replaced is not None else []
    _write(os.path.join(place, _REPLACED), msgspec.json.encode(names))
    text = msgspec.json.format(msgspec.json.encode(manifest), indent=1)
    _write(os.path.join(place, _MANIFEST), text)
    sync_directory(place)
    sync_directory(directory)  # the manifest must not be there without the directory that it speaks of
    os.replace(os.path.join(place, _MANIFEST), manifest_path(directory, prefix))
    sync_directory(directory)


def finish(directory: str, prefix: str, manifest: Manifest) -> None:
    """Give the shards of a committed set their names, and remove those of the one before. It can be
    repeated."""
    place = set_path(directory, prefix, manifest.id)
    if os.path.exists(manifest_path(directory, prefix)):
        with suppress(FileNotFoundError):  # an older version's, which does not count any more
            os.unlink(visible_manifest_path(directory, prefix))
    files = manifest.files()
    old = _replaced(os.path.join(place, _REPLACED))
    for name in files:
        with suppress(FileNotFoundError):  # it is in place already
            os.replace(os.path.join(place, name), os.path.join(directory, name))
    for shard in manifest.shards:  # visible indexes: an older version was killed in the middle of this
        hidden, visible = index_paths(shard.name)
        with suppress(FileNotFoundError):
            os.replace(os.path.join(place, visible), os.path.join(directory, hidden))
    for name in (
        name for shard in old if is_shard_name(prefix, shard) for name in (shard, *index_paths(shard))
    ):
        if name not in files:
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(directory, name))
    sync_directory(directory)
    shutil.rmtree(place)


def recover(directory: str, prefix: str) -> Manifest | None:
    """The set that is committed, all of it in place. What was begun and never committed is removed."""
    manifest = read_manifest(directory, prefix)
    for id in hidden_ids(directory, prefix, "set"):
        if manifest is not None and id == manifest.id:
            finish(directory, prefix, manifest)
        else:
            shutil.rmtree(set_path(directory, prefix, id))
    return manifest


def _replaced(path: str) -> list[str]:
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=list[str])
    except (FileNotFoundError, msgspec.DecodeError):
        return []  # rmtree had begun, so they are gone


def _write(path: str, text: bytes) -> None:
    with open(path, "wb") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())

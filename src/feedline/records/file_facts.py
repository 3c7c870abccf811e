"""What tells a file apart, without reading it: its path, size and time, or a checksum from a manifest."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from feedline.errors import CorruptRecord
from feedline.records.shard_files import Shard, prefix_of, read_manifest, set_path


class FileFacts(NamedTuple):
    path: str  # without links; only its name, where a manifest tells what is in it
    size: int
    stamp: str  # the time or the checksum
    trouble: str  # why nothing can be told of it; or ""


def file_facts(paths: Iterable[str]) -> list[FileFacts]:
    """Of each path, in their order.

    A file that is in a manifest, with the size it has there, is told by its checksum, wherever it lies and
    whenever it was copied. Of others, links in their directory's path are followed, so that it is all one how
    a path is written.
    """
    real = lru_cache(maxsize=None)(os.path.realpath)
    shards = lru_cache(maxsize=None)(_shards)
    found = []
    for path in paths:
        directory, name = os.path.split(path)
        try:
            status = os.stat(path)
        except (OSError, ValueError) as error:
            found.append(FileFacts(path, 0, "", getattr(error, "strerror", None) or str(error)))
            continue
        kind = status.st_mode
        trouble = "" if stat.S_ISREG(kind) or stat.S_ISDIR(kind) else "it is no file that could be read again"
        prefix = prefix_of(name)
        shard = shards(directory, prefix).get(name) if prefix else None
        if shard is not None and shard.bytes == status.st_size:
            found.append(FileFacts(name, shard.bytes, f"crc32c {shard.crc32c:08x}", trouble))
        else:
            whole = os.path.join(real(directory), name)
            found.append(FileFacts(whole, status.st_size, f"mtime {status.st_mtime_ns}", trouble))
    return found


def _shards(directory: str, prefix: str) -> dict[str, Shard]:
    """Those in a manifest of the directory; or of the one above, for shards that have yet to get a name."""
    try:
        manifest = read_manifest(directory or ".", prefix)
        if manifest is None:
            above, hidden = os.path.split(directory)
            manifest = read_manifest(above or ".", prefix)
            if manifest is None or os.path.basename(set_path(above, prefix, manifest.id)) != hidden:
                return {}
    except (OSError, CorruptRecord):
        return {}  # then it tells nothing, and their times do
    return {shard.name: shard for shard in manifest.shards}

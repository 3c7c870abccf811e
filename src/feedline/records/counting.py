"""count: how many records there are."""

from __future__ import annotations

from feedline.records.indexing import load_index
from feedline.records.paths import Files, compression_name, resolve
from feedline.records.reading import batches


def count(files: Files, *, compression: str | None = "auto") -> int:
    """The number of records in the files, by walking their headers, or from a sidecar index that is there.

    Payload checksums are not read: see `verify`.
    """
    kind = compression_name(compression)
    return sum(_count_one(path, kind) for path in resolve(files))


def _count_one(path: str, compression: str) -> int:
    known = load_index(path)
    if known is not None:
        return len(known) - 1
    return sum(len(batch) for batch in batches(path, compression, resync=False))

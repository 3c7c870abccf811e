"""count: how many records there are."""

from __future__ import annotations

import os

from feedline.records.known_indexes import Indexes
from feedline.records.paths import Files, compression_name, resolve
from feedline.records.reading import Progress, batches
from feedline.records.same_set import SameSet


def count(files: Files, *, compression: str | None = "auto", progress: Progress | None = None) -> int:
    """The number of records in the files, by walking their headers, or from a sidecar index that is there.

    Payload checksums are not read: see `verify`. `progress` is called with the number of file bytes read.
    """
    kind = compression_name(compression)
    found = passed = 0
    paths, known = resolve(files), Indexes()
    with SameSet(paths):
        for path in paths:
            index = known.of(path)
            if index is not None:
                found += len(index) - 1
            else:
                for reader, batch in batches(path, kind, resync=False):
                    found += len(batch)
                    if progress is not None:
                        progress(passed + reader.consumed)
            passed += os.path.getsize(path)
    return found

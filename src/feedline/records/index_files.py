"""index: find where each record of plain files lies, several files at a time, and keep it beside them.

Many files of one directory share an index (records/directory_index); else each has its own sidecar
(records/indexing). Where neither can be written, the index is used all the same.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from errno import EFBIG
from typing import overload

import numpy as np

from feedline import _native
from feedline.errors import CorruptRecord, FeedlineError, UsageError
from feedline.records.beside import directory_index_path, index_path
from feedline.records.directory_index import Entry, merge_into_directory_index
from feedline.records.identity import identity_of
from feedline.records.indexing import FRAMING, Offsets, load_sidecar, save_index
from feedline.records.known_indexes import Indexes
from feedline.records.new_file import cannot_write
from feedline.records.paths import resolve
from feedline.records.reading import Progress, batches

# Files of a directory that are indexed together and share one index. Below this, opening a sidecar for each
# costs a few milliseconds in all.
MANY = 64

_Path = str | os.PathLike[str]


@dataclass(frozen=True)
class RecordIndex:
    """The offset of each record's header, and the length of its payload, in bytes."""

    path: str
    offsets: Offsets
    lengths: Offsets

    def __len__(self) -> int:
        return len(self.offsets)


@overload
def index(files: _Path, *, progress: Progress | None = None) -> RecordIndex: ...  # type: ignore[overload-overlap]
@overload
def index(files: Iterable[_Path], *, progress: Progress | None = None) -> list[RecordIndex]: ...
def index(
    files: _Path | Iterable[_Path], *, progress: Progress | None = None
) -> RecordIndex | list[RecordIndex]:
    """The index of one plain file; of a list of files, directories and globs, that of each file.

    An index that is there and true is used. Else the headers of the records are read, of several files at a
    time, and the index is kept in a hidden file beside the data, where one can be written: one for each file,
    or one for the directory if there are many. Payload checksums are not read: see `verify`.

    `progress` is called with the number of file bytes read.
    """
    if isinstance(files, str | os.PathLike):
        path = os.fspath(files)
        if resolve(path) != [path]:
            raise UsageError(
                f"index({path!r}): this stands for several files. To index each of them:  index([{path!r}])"
            )
        return index_each([path], progress)[0].result()
    return [one.result() for one in index_each(resolve(files), progress)]


@dataclass(frozen=True)
class Indexed:
    """What came of indexing a file."""

    path: str
    found: Offsets | FeedlineError | OSError
    trouble: OSError | None = None  # why the index could not be kept

    def result(self) -> RecordIndex:
        if isinstance(self.found, Exception):
            raise self.found
        return RecordIndex(self.path, self.found[:-1], np.diff(self.found) - np.uint64(FRAMING))


def index_each(paths: Sequence[str], progress: Progress | None = None) -> list[Indexed]:
    """The indexes of files, in their order. A file that has none holds up no other."""
    shared = _with_many(paths)
    known = Indexes()
    found: dict[str, Offsets | FeedlineError | OSError] = {}
    new: dict[str, Entry] = {}
    for path in dict.fromkeys(paths):
        if (offsets := known.in_directory(path)) is not None:
            found[path] = offsets
        elif (beside := load_sidecar(path)) is not None:
            found[path] = beside[1]
            if os.path.dirname(path) in shared:
                new[path] = Entry.of_indexed(path, *beside)
    missing = [path for path in dict.fromkeys(paths) if path not in found]
    for path, entry in zip(missing, _walk(missing, progress), strict=True):
        if isinstance(entry, Entry):
            found[path], new[path] = entry.offsets, entry
        else:
            found[path] = entry
    troubles = _keep(new, shared)
    return [Indexed(path, found[path], troubles.get(path)) for path in paths]


def _with_many(paths: Sequence[str]) -> set[str]:
    """The directories that many of the files are in."""
    count: dict[str, int] = {}
    for path in paths:
        directory = os.path.dirname(path)
        count[directory] = count.get(directory, 0) + 1
    return {directory for directory, files in count.items() if files >= MANY}


def _walk(paths: list[str], progress: Progress | None) -> list[Entry | FeedlineError | OSError]:
    if not paths:
        return []
    now = time.time_ns()
    facts, starts, offsets = _native.walk_headers([os.fsencode(path) for path in paths], progress)
    found: list[Entry | FeedlineError | OSError] = []
    for path, of_file, own in zip(paths, facts.tolist(), np.split(offsets, starts[1:-1]), strict=True):
        if len(own):
            found.append(Entry.of(of_file, own, now))
        else:
            try:
                found.append(_read(path))
            except (FeedlineError, OSError) as error:
                found.append(error)
    return found


def _read(path: str) -> Entry:
    """Of a file that could not be walked: mostly an error that says why."""
    identity = identity_of(path)
    parts = []
    end = 0
    for reader, batch in batches(path, "auto", resync=False):
        if reader.compression != "none":
            raise UsageError(
                f"{path}: a compressed file has no index, because no record can be reached without inflating "
                "all before it.\n  Write it again without compression for random access."
            )
        if len(batch):
            parts.append(batch.offsets)
            end = int(parts[-1][-1] + batch.sizes[-1]) + FRAMING
    if end != identity.size:
        raise CorruptRecord(
            f"the file was written while it was read: it had {identity.size:,} bytes, and its last record "
            f"ends at byte {end:,}",
            path=path,
            remedy="Index it when its writer is done.",
        )
    return Entry.of_indexed(path, identity, np.concatenate([*parts, np.array([end], np.uint64)]))


def _keep(new: dict[str, Entry], shared: set[str]) -> dict[str, OSError]:
    """Write what is new; of each file for which that failed, why."""
    troubles: dict[str, OSError] = {}
    alone = {path: entry for path, entry in new.items() if os.path.dirname(path) not in shared}
    for directory in shared:
        here = {path: entry for path, entry in new.items() if os.path.dirname(path) == directory}
        try:
            merge_into_directory_index(directory, {os.path.basename(path): here[path] for path in here})
        except OSError as error:
            if error.errno == EFBIG:
                alone |= here
                continue
            trouble = cannot_write(directory_index_path(directory), error)
            troubles |= dict.fromkeys(here, trouble)
    for path, entry in alone.items():
        try:
            save_index(path, entry.identity, entry.offsets)
        except OSError as error:
            troubles[path] = cannot_write(index_path(path), error)
    return troubles

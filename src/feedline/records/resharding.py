"""reshard: the records of some files, in order, as a set of so many shards.

They are read twice: first to be counted, by their headers or an index, then to be checked and copied. The set
is committed as a whole, as that of a ShardedWriter; one that was made of it may take its place.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from feedline import _native
from feedline.errors import CorruptRecord, UsageError, WriteError
from feedline.records.counting import count
from feedline.records.faults import to_error
from feedline.records.feature_texts import feature_texts
from feedline.records.holder import Holder
from feedline.records.indexing import FRAMING, write_index
from feedline.records.paths import Files, resolve
from feedline.records.publishing import check_strangers, commit, recover
from feedline.records.reading import Progress, batches
from feedline.records.shard_files import (
    VERSION,
    Manifest,
    Shard,
    check_prefix,
    check_shards,
    shard_name,
)
from feedline.records.telling import told_in_common


@dataclass(frozen=True)
class Reshard:
    """What `reshard` did: `directory` holds so many shards, with the records of so many files."""

    directory: str
    files: int
    shards: int
    records: int


def reshard(
    files: Files,
    directory: str | os.PathLike[str],
    shards: int,
    *,
    prefix: str = "data",
    progress: Progress | None = None,
) -> Reshard:
    """Divide the records of the files, in order, among so many new files, whose counts differ by one at most.

    They are plain files, each with its index, and there with their manifest all at once, or not at all. Where
    the directory holds a set with this prefix already, that is replaced if its shards are the files, and else
    nothing is done. The first damaged record is a CorruptRecord. `progress` is called with the number of file
    bytes read so far, the mean of both readings.

    >>> with feedline.TFRecordWriter("numbers.tfrecord") as writer:
    ...     writer.write_batch({"n": list(range(10))})
    >>> reshard("numbers.tfrecord", "parts", 4).records
    10
    >>> [feedline.records.count(path) for path in feedline.records.resolve("parts")]
    [3, 3, 2, 2]
    """
    shards = check_shards("reshard", shards)
    files = files if isinstance(files, str | bytes | os.PathLike) else list(files)
    paths, directory = resolve(files), os.path.abspath(os.fsdecode(directory))
    check_prefix(prefix)
    for path in paths:
        if not os.path.isfile(path) and os.path.exists(path):
            raise UsageError(f"{path}: it is no regular file, and reshard reads files twice.")
    report = progress or (lambda read: None)
    total = count(paths, progress=lambda read: report(read // 2))
    try:
        os.makedirs(directory, exist_ok=True)
        holder = Holder(directory, prefix)
        try:
            replaced = recover(directory, prefix)
            paths = resolve(files)  # shards of a set that was not quite in place have other names now
            check_strangers(directory, prefix, replaced)
            _refuse_to_overwrite(directory, prefix, replaced, paths)
            _divide(directory, prefix, replaced, _Records(paths, report), total, shards)
        finally:
            holder.release()
    except OSError as error:
        if isinstance(error, WriteError) or error.filename in paths:
            raise
        raise WriteError(
            error.errno,
            f"cannot write in {directory}: {error.strerror}. Nothing of the set is to be seen.\n"
            "  Free the cause and try again.",
        ) from error
    return Reshard(directory, len(paths), shards, total)


def _refuse_to_overwrite(directory: str, prefix: str, old: Manifest | None, paths: list[str]) -> None:
    if old is None:
        return
    read = {os.path.realpath(path) for path in paths}
    for shard in old.shards:
        if os.path.realpath(os.path.join(directory, shard.name)) not in read:
            raise UsageError(
                f"{directory} holds a set with the prefix {prefix!r}, and {shard.name} of it is not among "
                "the files: it would be lost.\n  Give another directory, or another prefix."
            )


def _divide(
    directory: str, prefix: str, replaced: Manifest | None, records: _Records, total: int, count: int
) -> None:
    from importlib.metadata import version

    features = told_in_common(records.paths)
    id = secrets.token_hex(8)

    def make(place: str) -> Manifest:
        each, more = divmod(total, count)
        shards = tuple(
            _write_shard(place, shard_name(prefix, number, count), records, each + (number < more))
            for number in range(count)
        )
        records.check_done()
        return Manifest(
            version=VERSION,
            id=id,
            feedline=version("feedline"),
            compression="none",
            shards=shards,
            producers=() if replaced is None else replaced.producers,
            features=None if features is None else feature_texts(features),
        )

    commit(directory, prefix, id, replaced, make)


def _write_shard(place: str, name: str, records: _Records, count: int) -> Shard:
    path = os.path.join(place, name)
    checksum = 0
    ends = [np.zeros(1, np.uint64)]
    with open(path, "xb", buffering=0) as file:
        for frames, sizes in records.take(count):
            left = memoryview(frames.data)
            while left:
                left = left[file.write(left) :]
            checksum = _native.crc32c(frames, checksum)
            ends.append(ends[-1][-1] + np.cumsum(sizes))
        os.fsync(file.fileno())
    offsets = np.concatenate(ends)
    write_index(path, offsets)
    return Shard(name, count, int(offsets[-1]), checksum)


class _Records:
    """The checked records of the files, to be taken so many at a time."""

    def __init__(self, paths: list[str], report: Progress) -> None:
        self.paths = paths
        self._runs = self._read(report)
        self._rest: _Run | None = None

    def take(self, count: int) -> Iterator[_Run]:
        """Runs of framed records, back to back, and the size of each frame."""
        while count:
            frames, sizes = self._rest or self._next()
            taken = int(sizes[:count].sum())
            yield frames[:taken], sizes[:count]
            self._rest = (frames[taken:], sizes[count:]) if count < len(sizes) else None
            count -= min(count, len(sizes))

    def check_done(self) -> None:
        if self._rest is not None or next(self._runs, None) is not None:
            raise self._changed()

    def _next(self) -> _Run:
        run = next(self._runs, None)
        if run is None:
            raise self._changed()
        return run

    def _changed(self) -> CorruptRecord:
        return CorruptRecord(
            "the number of records changed between counting and copying them",
            path=self.paths[0] if len(self.paths) == 1 else f"{self.paths[0]} and the others",
            remedy="Divide the files when their writers are done.",
        )

    def _read(self, report: Progress) -> Iterator[_Run]:
        passed = sum(map(os.path.getsize, self.paths))
        for path in self.paths:
            for reader, batch in batches(path, "auto", resync=False):
                for fault in batch.check():
                    raise to_error(fault)
                report((passed + reader.consumed) // 2)
                if len(batch):
                    yield batch.frames(), batch.sizes + np.uint64(FRAMING)
            passed += os.path.getsize(path)


_Run = tuple[npt.NDArray[np.uint8], np.ndarray[Any, np.dtype[np.uint64]]]

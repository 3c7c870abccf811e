"""The indexes of all files of a directory, in one hidden file: `.flindex`.

In words of 8 bytes:

    magic FLINDEXD | number of files | number of offsets | size of the names in bytes
    | for each file: size, mtime, CRC32C of its ends, ctime or 0, inode
    | where the offsets of each file begin, and their number
    | the names of the files, with a zero byte between, padded with zeros
    | for each file: the offset of each record, and the end of the last | CRC32C of all before it

An entry counts while its file has the size and the time. If ctime and inode are the same as well, nothing has
touched the file, so it is not opened. Otherwise, as after a copy, the ends of the file decide.

The file is replaced as a whole. Writers take turns, and each adds to what the one before it wrote.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Mapping
from errno import EBUSY, EFBIG
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from feedline import _native
from feedline.errors import WriteError
from feedline.records.beside import directory_index_path
from feedline.records.identity import Identity, identity_of
from feedline.records.indexing import FRAMING, Offsets
from feedline.records.new_file import NewFile

_MAGIC = b"FLINDEXD"
_HEAD = 4  # words
_FACTS = 5  # words of each file
_MAX_BYTES = 1 << 30  # of the index; a larger set has an index for each file
_REMEMBERED = 64 << 20  # bytes of an index that is kept in memory for the next one who asks
_PATIENCE = 60.0  # seconds, for other writers of the same index
# Kernels set times by a clock that ticks every 1 to 10 ms. A file that changed this recently may change again
# without a new time, so its ctime proves nothing.
_UNSETTLED = 100_000_000  # ns


class Entry(NamedTuple):
    identity: Identity
    changed: int  # ctime in ns; 0 if it proves nothing
    inode: int
    offsets: Offsets  # of each record, and the end of the last

    @classmethod
    def of(cls, walked: list[int], offsets: Offsets, now: int) -> Entry:
        """Of what `_native.walk_headers` found at the time `now`, or after it."""
        size, modified, ends, changed, inode = walked
        return cls(Identity(size, modified, ends), _settled(changed, now), inode, offsets)

    @classmethod
    def of_indexed(cls, path: str, identity: Identity, offsets: Offsets) -> Entry:
        """Of a file that has this identity."""
        now, facts = time.time_ns(), os.stat(path)
        is_same = (facts.st_size, facts.st_mtime_ns % 2**64) == identity[:2]
        changed = _settled(facts.st_ctime_ns % 2**64, now) if is_same else 0
        return cls(identity, changed, facts.st_ino, offsets)

    def is_true_of(self, path: str) -> bool:
        facts = os.stat(path)
        if (facts.st_size, facts.st_mtime_ns % 2**64) != self.identity[:2]:
            return False
        if (facts.st_ctime_ns % 2**64, facts.st_ino) == (self.changed, self.inode):
            return True
        return identity_of(path) == self.identity


def _settled(changed: int, now: int) -> int:
    return changed if changed + _UNSETTLED < now else 0


class DirectoryIndex:
    """What the index says, whether or not it is still true."""

    def __init__(self, names: list[str], facts: Offsets, starts: Offsets, offsets: Offsets) -> None:
        self._numbers = {name: number for number, name in enumerate(names)}
        self._facts = facts.tolist()
        self._starts = starts.tolist()
        self._offsets = offsets

    def __iter__(self) -> Any:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)

    def get(self, name: str) -> Entry | None:
        number = self._numbers.get(name)
        if number is None:
            return None
        size, modified, ends, changed, inode = self._facts[number]
        offsets = self._offsets[self._starts[number] : self._starts[number + 1]]
        return Entry(Identity(size, modified, ends), changed, inode, offsets)


def read_directory_index(directory: str) -> DirectoryIndex | None:
    """None if there is none, or it is damaged."""
    path = directory_index_path(directory)
    try:
        facts = os.stat(path)
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > _MAX_BYTES:
            return None
        load = _load_once if facts.st_size <= _REMEMBERED else _load
        return load(path, facts.st_size, facts.st_dev, facts.st_ino, facts.st_mtime_ns)
    except OSError:
        return None


def _load(path: str, size: int, *_: int) -> DirectoryIndex | None:
    with open(path, "rb") as file:
        data = np.frombuffer(file.read(size), np.uint8)
    return _parsed(data) if len(data) == size else None


_load_once = lru_cache(maxsize=4)(_load)


def _parsed(data: np.ndarray[Any, np.dtype[np.uint8]]) -> DirectoryIndex | None:
    """Numbers in it are hostile: they are compared with the size of the index before they are used."""
    if len(data) % 8 or len(data) < 8 * _HEAD or data[:8].tobytes() != _MAGIC:
        return None
    words = data.view(np.uint64)
    files, count, name_bytes = words[1:_HEAD].tolist()
    name_words = -(-name_bytes // 8)
    if len(words) != _HEAD + (_FACTS + 1) * files + 1 + name_words + count + 1 or not files:
        return None
    if int(words[-1]) != _native.crc32c(data[:-8]):
        return None
    ends = _HEAD + np.cumsum([_FACTS * files, files + 1, name_words, count])
    _, facts, starts, padded, offsets, _ = np.split(words, [_HEAD, *ends])
    names = os.fsdecode(padded.tobytes()[:name_bytes]).split("\0")
    facts = facts.reshape(files, _FACTS)
    if len(set(names)) != files or not _are_sound(facts[:, 0], starts, offsets):
        return None
    return DirectoryIndex(names, facts, starts, offsets)


def _are_sound(sizes: Offsets, starts: Offsets, offsets: Offsets) -> bool:
    """Do the offsets of each file begin at 0, rise by a record's least size, and end at the file's?"""
    if starts[0] != 0 or starts[-1] != len(offsets) or not (starts[1:] > starts[:-1]).all():
        return False
    firsts, lasts = starts[:-1].astype(np.int64), starts[1:].astype(np.int64) - 1
    if offsets[firsts].any() or (offsets[lasts] != sizes).any():
        return False
    rises = (offsets[1:] > offsets[:-1]) & (np.diff(offsets) >= FRAMING)  # uint64 wraps, so both
    rises[lasts[:-1]] = True  # from a file to the next
    return bool(rises.all())


def merge_into_directory_index(directory: str, entries: Mapping[str, Entry]) -> None:
    """Add entries by the names of their files, and drop those of files that are gone. OSError if that fails.

    Nothing is written if nothing changes.
    """
    known = read_directory_index(directory)
    if not entries and (known is None or set(known) <= set(os.listdir(directory or "."))):
        return
    file = _only_writer(directory_index_path(directory))
    try:
        _write(file, _merged(directory, entries))
        file.commit(durable=False)  # a power failure may lose the index; the next call makes it again
    finally:
        file.abort()


def _merged(directory: str, entries: Mapping[str, Entry]) -> dict[str, Entry]:
    merged = dict(entries)
    known = read_directory_index(directory)  # again: another writer may have been at it
    if known is not None:
        for name in set(known).intersection(os.listdir(directory or ".")).difference(entries):
            entry = known.get(name)
            assert entry is not None
            merged[name] = entry
    return dict(sorted(merged.items()))


def _only_writer(path: str) -> NewFile:
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            return NewFile(path)
        except WriteError as error:
            if error.errno != EBUSY or time.monotonic() > until:
                raise
        time.sleep(0.01)


def _write(file: NewFile, entries: Mapping[str, Entry]) -> None:
    names = os.fsencode("\0".join(entries))
    counts = [len(entry.offsets) for entry in entries.values()]
    size = 8 * (_HEAD + (_FACTS + 1) * len(entries) + 1 + -(-len(names) // 8) + sum(counts) + 1)
    if size > _MAX_BYTES:
        raise OSError(EFBIG, f"the index would have {size:,} bytes, and {_MAX_BYTES:,} are the limit")
    facts = [(*entry.identity, entry.changed, entry.inode) for entry in entries.values()]
    words = np.concatenate(
        [
            np.frombuffer(_MAGIC, np.uint64),
            np.array([len(entries), sum(counts), len(names)], np.uint64),
            np.array(facts, np.uint64).reshape(-1),
            np.cumsum([0, *counts], dtype=np.uint64),
            np.frombuffer(names + bytes(-len(names) % 8), np.uint64),
            *(entry.offsets for entry in entries.values()),
        ]
    )
    file.write(words)
    file.write(np.uint64(_native.crc32c(words.view(np.uint8))))

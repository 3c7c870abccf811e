"""Where each record of a plain TFRecord file lies, kept in a sidecar beside it.

Sidecar `<file>.flindex`: magic (8 bytes) | file size, mtime in ns, CRC32C of the file's first and last
4 KiB, number of records (4 x 8) | the offset of each record and the end of the last ((records + 1) x 8) |
CRC32C of all before it (8). It is a cache: one that is damaged, or whose file has changed, is made anew;
where it cannot be written, the index is used all the same.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from feedline import _native
from feedline.errors import CorruptRecord, UsageError
from feedline.records.paths import INDEX_SUFFIX
from feedline.records.reading import batches

_MAGIC = b"FLINDEX1"
FRAMING = 16  # bytes of header and footer around each payload
_PROBE = 4096

Offsets = np.ndarray[Any, np.dtype[np.uint64]]


@dataclass(frozen=True)
class RecordIndex:
    """The offset of each record's header, and the length of its payload, in bytes."""

    path: str
    offsets: Offsets
    lengths: Offsets

    def __len__(self) -> int:
        return len(self.offsets)


def index(path: str | os.PathLike[str]) -> RecordIndex:
    """The index of one plain file, from its sidecar if that is there and true, else by walking its headers.

    Payload checksums are not read: see `verify`.
    """
    path = os.fspath(path)
    known = load_index(path)
    if known is None:
        identity = _identity(path)
        known = _walk(path)
        _save(path, identity, known)
    return RecordIndex(path, known[:-1], np.diff(known) - np.uint64(FRAMING))


def load_index(path: str) -> Offsets | None:
    """The offsets in the sidecar and the end of the last record; None if it is missing, damaged or stale."""
    stored = _load(path)
    try:
        return stored[1] if stored is not None and stored[0] == _identity(path) else None
    except OSError:
        return None


def known_end(path: str) -> tuple[int, int]:
    """Where records of a file that may have grown since it was indexed end, and their number: or (0, 0)."""
    stored = _load(path)
    try:
        if stored is not None:
            (size, _, ends), offsets = stored
            if _identity(path, size)[2] == ends and os.path.getsize(path) >= size:
                return size, len(offsets) - 1
    except OSError:
        pass
    return 0, 0


def _load(path: str) -> tuple[list[int], Offsets] | None:
    """What a sidecar says: the identity of its file, and the offsets; None if it is missing or damaged."""
    try:
        stored = np.fromfile(path + INDEX_SUFFIX, np.uint8)
    except OSError:
        return None
    head = len(_MAGIC) + 8 * 3
    if len(stored) < head + 24 or len(stored) % 8 or stored[: len(_MAGIC)].tobytes() != _MAGIC:
        return None
    words = stored.view(np.uint64)
    if int(words[-1]) != _native.crc32c(stored[:-8]):
        return None
    identity = words[1:4].tolist()
    offsets = words[head // 8 + 1 : -1]
    if int(words[head // 8]) != len(offsets) - 1 or offsets[0] != 0 or int(offsets[-1]) != identity[0]:
        return None
    # uint64 wraps, so compare before taking differences.
    if not (offsets[1:] > offsets[:-1]).all() or (np.diff(offsets) < FRAMING).any():
        return None
    return identity, offsets


def _walk(path: str) -> Offsets:
    parts = []
    end = 0
    for reader, batch in batches(path, "auto", resync=False):
        if reader.compression != "none":
            raise _compressed(path)
        if len(batch):
            parts.append(batch.offsets)
            end = int(parts[-1][-1] + batch.sizes[-1]) + FRAMING
    return np.concatenate([*parts, np.array([end], np.uint64)])


def _compressed(path: str) -> UsageError:
    return UsageError(
        f"{path}: a compressed file has no index, because no record can be reached without inflating all "
        "before it.\n  Write it again without compression for random access."
    )


def _identity(path: str, size: int | None = None) -> list[int]:
    """What changes when the file does: size, time, and both ends, for a rewrite within the clock's tick.

    With `size`, that of the file when it had so many bytes, the time apart.
    """
    with open(path, "rb", buffering=0) as file:
        stat = os.fstat(file.fileno())
        size = stat.st_size if size is None else size
        ends = os.pread(file.fileno(), min(_PROBE, size), 0)
        start = max(0, size - _PROBE)
        ends += os.pread(file.fileno(), size - start, start)
    return [size, stat.st_mtime_ns % 2**64, _native.crc32c(np.frombuffer(ends, np.uint8))]


def _save(path: str, identity: list[int], offsets: Offsets) -> None:
    if int(offsets[-1]) != identity[0]:
        raise CorruptRecord(
            f"the file was written while it was read: it had {identity[0]:,} bytes, and its last record "
            f"ends at byte {int(offsets[-1]):,}",
            path=path,
            remedy="Index it when its writer is done.",
        )
    folder, name = os.path.split(path)
    partial = os.path.join(folder, f".{name}{INDEX_SUFFIX}.{os.getpid()}")
    try:
        _write(partial, identity, offsets)
        os.replace(partial, path + INDEX_SUFFIX)
    except OSError:
        # A read-only or full directory: the index still serves, it is only not kept.
        if os.path.exists(partial):
            os.unlink(partial)


def write_index(path: str, offsets: Offsets) -> None:
    """The sidecar of a new file, on the disk: where each of its records begins and the last one ends. OSError
    if it cannot be."""
    _write(path + INDEX_SUFFIX, _identity(path), offsets)
    with open(path + INDEX_SUFFIX, "rb") as index:
        os.fsync(index.fileno())


def _write(path: str, identity: list[int], offsets: Offsets) -> None:
    words = np.concatenate([np.array([*identity, len(offsets) - 1], np.uint64), offsets])
    body = _MAGIC + words.tobytes()
    checksum = np.uint64(_native.crc32c(np.frombuffer(body, np.uint8)))
    with open(path, "wb") as file:
        file.write(body + checksum.tobytes())

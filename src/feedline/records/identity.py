"""What changes when a file does: its size, its time, and a checksum of both ends."""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np

from feedline import _native

_PROBE = 4096  # bytes of each end


class Identity(NamedTuple):
    """Both ends count, for a rewrite within the clock's tick."""

    size: int
    time: int
    ends: int

    def has_bytes_of(self, other: Identity) -> bool:
        """The same, but for the time: a copy has another."""
        return (self.size, self.ends) == (other.size, other.ends)


def identity_of(path: str, size: int | None = None) -> Identity:
    """That of the file as it is; with `size`, as it was when it had so many bytes, the time apart."""
    with open(path, "rb", buffering=0) as file:
        stat = os.fstat(file.fileno())
        size = stat.st_size if size is None else size
        ends = os.pread(file.fileno(), min(_PROBE, size), 0)
        start = max(0, size - _PROBE)
        ends += os.pread(file.fileno(), size - start, start)
    return Identity(size, stat.st_mtime_ns % 2**64, crc32c(ends))


def crc32c(data: bytes) -> int:
    return _native.crc32c(np.frombuffer(data, np.uint8))

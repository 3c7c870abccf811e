"""Who writes in a directory under a prefix: one at a time, told by a lock on `.<prefix>.lock`."""

from __future__ import annotations

import os
from errno import EBUSY

from feedline.errors import WriteError
from feedline.records.lock_file import LockFile, holder_of


class Holder:
    def __init__(self, directory: str, prefix: str) -> None:
        """WriteError when another one has it; OSError when no lock can be had there."""
        path = os.path.join(directory, f".{prefix}.lock")
        lock = LockFile.take(path)
        if lock is None:
            raise WriteError(
                EBUSY,
                f"{directory}: the prefix {prefix!r} is being written by {holder_of(path) or 'another'}.\n"
                "  Wait for it or end it, or write with another prefix=.",
            )
        self._lock = lock

    @property
    def is_mine(self) -> bool:
        """Not once it is released, and not in a forked child."""
        return self._lock.is_mine

    def release(self) -> None:
        self._lock.release()

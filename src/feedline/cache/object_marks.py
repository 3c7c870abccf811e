"""Objects that are written anew while their holder is alive: marks of use, and claims."""

from __future__ import annotations

import os
import threading
import time
from abc import ABC, abstractmethod
from contextlib import suppress

from feedline.cache import store
from feedline.cache.bucket import Bucket, Version
from feedline.cache.store import Claim
from feedline.errors import CacheError
from feedline.records.lock_file import who_i_am


class _Renewed(ABC):
    """An object that is written anew while its holder is alive. Not by a forked child: it is the parent's."""

    def __init__(self, bucket: Bucket, path: str) -> None:
        self._bucket = bucket
        self._path = path
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._is_over = False
        self._last = _now()

    @property
    def is_of_this_process(self) -> bool:
        return os.getpid() == self._pid

    def renew(self) -> None:
        with suppress(CacheError):
            self.hold()

    def hold(self) -> bool:
        """Is it still this one's? Renewed not at each beat, because stores are paid by the request."""
        if not self.is_of_this_process:
            return False
        with self._lock:
            return self._hold()

    def _hold(self) -> bool:
        if not self._is_over and _now() - self._last >= store.SILENCE / 4:
            self._is_over = not self._write()
            self._last = _now()
        return not self._is_over

    def release(self) -> None:
        if not self.is_of_this_process:
            return
        with self._lock:
            try:
                # Moments ago it was this one's, so nobody can have taken it over yet.
                if self._hold():
                    self._bucket.delete([self._path])
            except CacheError:
                pass  # it ends by silence
            finally:
                self._is_over = True

    @abstractmethod
    def _write(self) -> bool:
        """False when it is another's by now."""


class Mark(_Renewed):
    """That an entry is in use."""

    def __init__(self, bucket: Bucket, path: str) -> None:
        super().__init__(bucket, path)
        self._who = who_i_am()
        self._write()

    def _write(self) -> bool:
        self._bucket.overwrite(self._path, f"{self._who}\n".encode(errors="replace"))
        return True


class ObjectClaim(_Renewed, Claim):
    def __init__(self, bucket: Bucket, path: str, token: str, version: Version) -> None:
        super().__init__(bucket, path)
        self._token = token
        self._version = version
        self._beats = 0

    def _write(self) -> bool:
        self._beats += 1
        version = self._bucket.replace(self._path, _beat_of(self._token, self._beats), self._version)
        self._version = version or self._version
        return version is not None


def _now() -> float:
    """Of a clock that goes on while the machine sleeps, where there is one."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def first_beat(token: str) -> bytes:
    """What is written to take a claim."""
    return _beat_of(token, 0)


def _beat_of(token: str, beats: int) -> bytes:
    return f"{token} {beats}".encode()

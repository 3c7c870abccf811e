"""A file to which events are appended, one JSON object a line with its checksum in front.

    1f2e3d4c {"lease": 32, ...}\n

What `append` returned from survives the death of this process, and what `sync` returned from survives that of
the machine. A line that was cut off by either is removed when the file is opened again. Damage before sound
lines is an error: the events there are lost, and going on without them would repeat or lose elements.

One process at a time writes to it. When it has grown, it is replaced by a snapshot of what its events led to.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from feedline.errors import ServiceError
from feedline.records.lock_file import LockFile, holder_of

_ENDING = ".journal"
_MOST_NAME = 200  # bytes of a file's name; file systems take 255
_MOST_BYTES = 1 << 30
_COMPACT = 1 << 20  # bytes of events after which a snapshot is worth it
_LOCK_SECONDS = 10.0  # that a host which is about to end may hold the lock
_LOCK_PAUSE = 0.02


def journal_path(directory: str, job: str) -> str:
    """Where the journal of a job is.

    >>> journal_path("/run/service.jobs", "runs/1")
    '/run/service.jobs/runs%2F1.journal'
    """
    name = quote(job, safe="")
    if len(name) > _MOST_NAME:
        name = f"{name[: _MOST_NAME - 10]}-{zlib.crc32(job.encode()):08x}"
    return os.path.join(directory, name + _ENDING)


class Journal:
    """Opens the file, or makes it. `events` are those that it holds."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._file = -1
        self._lock = _locked(path)
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self._new_path)  # of a process that died while it wrote it
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        size = os.fstat(self._file).st_size
        if size > _MOST_BYTES:
            raise ServiceError(f"{self.path}: this is no journal of a job: it has {size:,} bytes. {_REMEDY}")
        data = _read(self._file, size)
        self.events, sound = _events_in(self.path, data)
        if sound < size:
            os.ftruncate(self._file, sound)
        self._size = sound  # bytes
        self._base = sound  # bytes when the last snapshot was written
        self._is_synced = False
        _sync_directory(self.path)

    def append(self, event: dict[str, Any]) -> None:
        line = _line(event)
        written = os.write(self._file, line)
        if written != len(line):  # the disk is full: half a line must not be in front of the next one
            os.ftruncate(self._file, self._size)
            raise ServiceError(f"{self.path}: the disk is full, so nothing more can be handed out.")
        self._size += len(line)
        self._is_synced = False

    def sync(self) -> None:
        if not self._is_synced:
            os.fdatasync(self._file)
            self._is_synced = True

    @property
    def has_grown(self) -> bool:
        """Is it time to `replace` the events by a snapshot?"""
        return self._size - self._base > max(_COMPACT, 2 * self._base)

    def replace(self, snapshot: dict[str, Any]) -> None:
        """Let this event be all that the file holds."""
        new = os.open(self._new_path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            line = memoryview(_line(snapshot))
            size = len(line)
            while line:
                line = line[os.write(new, line) :]
            os.fsync(new)  # before the rename: a power failure must not leave an empty file under the name
            os.rename(self._new_path, self.path)
        except BaseException:
            os.close(new)
            raise
        _sync_directory(self.path)
        os.close(self._file)
        self._file, self._size, self._base, self._is_synced = new, size, size, True

    @property
    def _new_path(self) -> str:
        return self.path + ".new"

    def remove(self) -> None:
        """The job is over."""
        with suppress(FileNotFoundError):
            os.unlink(self.path)
        self.close()

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        self._lock.release()
        with suppress(OSError):  # others have theirs in it
            os.rmdir(os.path.dirname(self.path))


_REMEDY = "To begin the job anew, remove the file."


def _locked(path: str) -> LockFile:
    until = time.monotonic() + _LOCK_SECONDS
    while True:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with suppress(FileNotFoundError):  # another host has removed the directory just now
            lock = LockFile.take(f"{path}.lock")
            if lock is not None:
                return lock
        if time.monotonic() > until:
            holder = holder_of(f"{path}.lock") or "another process"
            raise ServiceError(
                f"{path}: this job belongs to another reader service: {holder}.\n"
                "  Clients of one job must use one service."
            )
        time.sleep(_LOCK_PAUSE)


def _line(event: dict[str, Any]) -> bytes:
    text = json.dumps(event, separators=(",", ":")).encode()
    return b"%08x %b\n" % (zlib.crc32(text), text)


def _event_of(line: bytes) -> dict[str, Any] | None:
    """None if it is damaged."""
    checksum, _, text = line.partition(b" ")
    if checksum != b"%08x" % zlib.crc32(text):
        return None
    event = json.loads(text)
    return event if isinstance(event, dict) else None


def _events_in(path: str, data: bytes) -> tuple[list[dict[str, Any]], int]:
    """The events, and the size of the part that is sound."""
    events: list[dict[str, Any]] = []
    sound = 0
    lines = data.split(b"\n")
    for number, line in enumerate(lines[:-1]):
        event = _event_of(line)
        if event is None:
            if any(_event_of(later) is not None for later in lines[number + 1 : -1]):
                raise ServiceError(f"{path}: the journal is damaged at byte {sound:,}. {_REMEDY}")
            break
        events.append(event)
        sound += len(line) + 1
    return events, sound


def _read(file: int, size: int) -> bytes:
    data = bytearray()
    while len(data) < size and (more := os.pread(file, size - len(data), len(data))):
        data += more
    return bytes(data)


def _sync_directory(path: str) -> None:
    directory = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)

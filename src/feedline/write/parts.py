"""What a producer has written so far, in files of its own that nobody sees before the commit.

    own/                        the producer without a name in the process that opened the writer
    named-<hash of the name>/   a producer with a name, whichever process it runs in
    process-<when>-<random>/    the producer without a name in any other process

    producer.json               its name, and the process
    owner                       locked (flock) by the process in which a producer with a name runs
    000000.part, 000001.part    plain TFRecords
    000000.json                 how much of 000000.part is sealed: on the disk, and kept if all goes down
    open                        while it is in a `with` block; it stays when the process is killed there
    failed                      with what the block ended, if that was an exception; or a thread that wrote
                                with a name
    died                        with what a thread ended that wrote without a name

A set with one of the last three is not committed. A producer with a name may begin again, which removes its
`failed`; but what a thread without a name had still to write, nobody knows.

A record is in the kernel when append() returns. A seal comes now and then, because it waits for the disk.
Parts are kept up to the first that is not sealed to its end: what is kept is always what was written first,
and the count and the key of the last kept record say where to go on.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from errno import EBUSY, ENOENT, ENOTDIR, ESTALE, ETIMEDOUT
from hashlib import blake2b
from threading import Lock
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from feedline import _native
from feedline.errors import UsageError, WriteError
from feedline.records.indexing import FRAMING
from feedline.records.new_file import sync_directory
from feedline.write.keys import key_of, key_text
from feedline.write.thread_deaths import Watch, Wrote, describe, unwatch, watch

SEAL_BYTES = 64 << 20
SEAL_SECONDS = 5.0
SEAL_SHARE = 0.1  # of the time since the producer began
LOCK_SECONDS = 30.0  # that a write in another process may take, before the commit gives up

OWN = "own"
PART, SEAL = ".part", ".json"
_OPEN, _FAILED, _DIED = "open", "failed", "died"


class Seal(msgspec.Struct, frozen=True):
    bytes: int
    records: int
    last_key: str
    closed: bool  # no more comes in this part


class Kept(NamedTuple):
    """What counts of a producer that was."""

    parts: int
    records: int
    last_key: Any


def home_of(staging: str, name: str | None, is_opener: bool) -> str:
    """Where a producer has its parts; that of an unnamed one in another process is a new place each time."""
    if name is not None:
        begin = f"named-{blake2b(name.encode(errors='surrogatepass'), digest_size=16).hexdigest()}"
    elif is_opener:
        begin = OWN
    else:
        begin = f"process-{time.time_ns():020}-{secrets.token_hex(4)}"
    return os.path.join(staging, begin)


class PartWriter:
    """A producer in this process. Threads may share it; a forked child begins parts of its own."""

    def __init__(self, staging: str, name: str | None, is_opener: bool, part_bytes: int | None) -> None:
        self.name = name
        self._staging = staging
        self._part_bytes = part_bytes
        self._begin(is_opener)

    def _begin(self, is_opener: bool) -> None:
        self._home = home_of(self._staging, self.name, is_opener)
        self._seals = self.name is not None or is_opener  # others start afresh after a crash
        self._lock = Lock()
        self._owner = self._fd = -1
        self._part: _native.PartFile | None = None
        self._kept: Kept | None = None  # of earlier parts; None until the first write
        self._last_key: Any = None
        self.is_ended = False
        self._blocks = 0  # `with` blocks, of threads
        self._wrote = Wrote()
        self._watch: Watch | None = None
        self._death: str | None = None  # of a thread
        self._started = self._sealed_at = time.monotonic()
        self._sealed_bytes = 0

    @property
    def count(self) -> int:
        """Records that are written, or before the first write, those that are kept of an earlier run."""
        with self._lock:
            return self._counted()[0]

    @property
    def last_key(self) -> Any:
        with self._lock:
            return self._counted()[1]

    def note_thread(self) -> None:
        """The calling thread is about to write."""
        self._wrote.here = True
        if self._watch is None:
            with self._lock:
                if self._watch is None:
                    self._watch = watch(self)

    def wrote_here(self) -> bool:
        return self._wrote.here

    def thread_died(self, who: str, error: str) -> None:
        """The commit knows that not all was written."""
        with self._lock:
            self._death = f"{who} failed with {error}"
            with suppress(OSError):  # it may have died because the disk is full. close() tries again
                self._mark_death()

    def _mark_death(self) -> None:
        if self._death is not None:
            self._mark(_DIED if self.name is None else _FAILED, self._death)

    def unwatch(self) -> None:
        """Hear of threads no more."""
        if self._watch is not None:
            unwatch(self._watch)

    def append(self, record: bytes, key: Any) -> None:
        self._append(len(record) + FRAMING, key, lambda part: part.append(record))

    def append_many(self, payloads: npt.NDArray[np.uint8], offsets: npt.NDArray[np.uint64], key: Any) -> None:
        size = int(offsets[-1] - offsets[0]) + FRAMING * (len(offsets) - 1)
        self._append(size, key, lambda part: part.append_many(payloads, offsets))

    def append_each(self, payloads: npt.NDArray[np.uint8], offsets: npt.NDArray[np.uint64]) -> None:
        """Records that need not go together: where a part ends follows from their sizes, however many come at
        a time. Of one thread."""
        while len(offsets) > 1:
            count = self._room_for(offsets)
            self.append_many(payloads, offsets[: count + 1], None)
            offsets = offsets[count:]

    def _room_for(self, offsets: npt.NDArray[np.uint64]) -> int:
        """How many of the records go into this part; if none, into the next."""
        count = len(offsets) - 1
        if self._part_bytes is None:
            return count
        ends = (offsets[1:] - offsets[0]).astype(np.int64) + FRAMING * np.arange(1, count + 1)
        held = 0 if self._part is None else self._part.size
        here = int(np.searchsorted(ends, self._part_bytes - held, "right"))
        return here or max(1, int(np.searchsorted(ends, self._part_bytes, "right")))

    def _append(self, size: int, key: Any, write: Callable[[_native.PartFile], _native.Fault | None]) -> None:
        with self._lock:
            try:
                part = self._ready(size)
                before, records = self._last_key, part.records
                self._last_key = key  # first: after the write, an interrupt could keep the key from being set
                try:
                    fault = write(part)
                finally:
                    if part.records == records:
                        self._last_key = before
                if fault is not None:
                    raise OSError(fault.os_error, fault.what)
            except OSError as error:
                raise refused(self._staging, error) from error

    def _ready(self, size: int) -> _native.PartFile:
        """The part that takes so many bytes. What was written before is sealed when that is due."""
        part = self._part
        if part is None or self._is_full(part, size):
            return self._next_part()
        if self._seals and self._is_time(part):
            self._seal(closed=False)
        return part

    def _is_full(self, part: _native.PartFile, size: int) -> bool:
        return self._part_bytes is not None and part.size > 0 and part.size + size > self._part_bytes

    def _is_time(self, part: _native.PartFile) -> bool:
        if part.size - self._sealed_bytes >= SEAL_BYTES:
            return True
        now = time.monotonic()
        return now - self._sealed_at > SEAL_SECONDS + SEAL_SHARE * (now - self._started)

    def _next_part(self) -> _native.PartFile:
        if self.is_ended:
            raise OSError(ESTALE, "closed")
        if self._kept is None:
            kept = self._settle()
            self._kept, self._last_key = kept, kept.last_key
        elif self._part is not None:
            self._finish_part()
        path = _part_path(self._home, self._kept.parts)
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        self._part = _native.PartFile(self._fd, os.fsencode(path))
        self._sealed_bytes = 0
        return self._part

    def _settle(self) -> Kept:
        """Make the place its own, with what is kept of whoever was there before."""
        with suppress(FileExistsError):
            os.mkdir(self._home)
        if self.name is not None and self._owner < 0:  # else the disk was full at the first attempt
            self._own()
        who = json.dumps([self.name, os.getpid()]).encode()
        write_file(os.path.join(self._home, "producer.json"), who, sync=self._seals)
        if self._seals:
            sync_directory(self._staging)
        if self._death is None:
            _forget(self._home, _FAILED)  # it begins again
        return keep_sealed(self._home)

    def _own(self) -> None:
        owner = os.open(os.path.join(self._home, "owner"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.pwrite(owner, f"{os.getpid():<20}".encode(), 0)
        except BlockingIOError:
            who = os.pread(owner, 20, 0).decode().strip()
            os.close(owner)
            raise UsageError(
                f"producer({self.name!r}) is written by process {who}, and a producer is in one process at a "
                "time.\n  Give each process a name of its own, or close the producer there first."
            ) from None
        except BaseException:
            os.close(owner)
            raise
        self._owner = owner

    def _finish_part(self) -> None:
        assert self._kept is not None
        assert self._part is not None
        if self._seals:
            self._seal(closed=True)
        kept = Kept(self._kept.parts + 1, self._kept.records + self._part.records, None)
        fd = self._fd
        # No call in between, so no interrupt either.
        self._kept, self._part, self._fd = kept, None, -1
        os.close(fd)

    def _seal(self, *, closed: bool) -> None:
        assert self._kept is not None
        assert self._part is not None
        with locked(self._fd):
            os.fsync(self._fd)
            seal = Seal(self._part.size, self._part.records, key_text(self._last_key), closed)
            path = os.path.join(self._home, f"{self._kept.parts:06}{SEAL}")
            write_file(path, msgspec.json.encode(seal), sync=True)
            sync_directory(self._home)
        self._sealed_bytes = self._part.size
        self._sealed_at = time.monotonic()

    def close(self) -> None:
        """Seal what there is. The producer can be opened again, here or in another process."""
        with self._lock:
            try:
                self._mark_death()
                if self._part is not None:
                    self._finish_part()
            except OSError as error:
                if not is_gone(error):  # what was committed meanwhile needs no seal
                    raise refused(self._staging, error) from error
            finally:
                self._end()

    def enter(self) -> None:
        """A `with` block begins: until it ends, the commit knows that not all is written."""
        with self._lock:
            self._blocks += 1
            try:
                self._mark(_OPEN, "its `with` block has not ended: it was killed there, or is still at work")
            except OSError as error:
                if not is_gone(error):  # else the first write tells
                    raise refused(self._staging, error) from error

    def leave(self, error: BaseException | None) -> None:
        """It ended. With an error, the commit knows that not all was written. It may begin again."""
        with self._lock:
            self._blocks -= 1
            if error is not None:
                with suppress(OSError):  # that error is on its way, and this one would hide it
                    self._mark(_FAILED, describe(error))
            else:
                _forget(self._home, _FAILED)
            if not self._blocks:
                _forget(self._home, _OPEN)

    def _mark(self, name: str, told: str) -> None:
        with suppress(FileExistsError):
            os.mkdir(self._home)
        who = "a process" if self.name is None else f"producer {self.name!r}"
        write_file(os.path.join(self._home, name), f"{who} ({os.getpid()}): {told}".encode())

    def drop(self) -> None:
        """Close it without a seal."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        try:
            count, self._last_key = self._counted()
        except WriteError:  # nothing was written, and now nothing can be
            count, self._last_key = 0, None
        if self._owner >= 0:
            fcntl.flock(self._owner, fcntl.LOCK_UN)  # a process that was forked just then may have a copy
        self._release()
        self._kept = Kept(0, count, None)
        self.is_ended = True

    def _counted(self) -> tuple[int, Any]:
        if self._kept is None:
            kept = read_kept(self._home)
            if not os.path.isdir(self._staging):  # afterwards, or it could be taken away in between
                raise refused(self._staging, OSError(ESTALE, "gone"))
            return kept.records, kept.last_key
        return self._kept.records + (self._part.records if self._part is not None else 0), self._last_key

    def _release(self) -> None:
        self._part = None
        for fd in (self._fd, self._owner):
            if fd >= 0:
                os.close(fd)
        self._fd = self._owner = -1

    def leave_to_parent(self) -> None:
        """In a forked child."""
        self._release()
        self.unwatch()
        self._begin(is_opener=False)

    def __del__(self) -> None:
        if getattr(self, "_owner", -1) >= 0 or getattr(self, "_fd", -1) >= 0:
            with suppress(OSError):
                self.close()


def failures_in(staging: str) -> list[str]:
    """Of producers that did not write all, and did not begin again: how they ended, if they did."""
    found = []
    for name in (_FAILED, _DIED, _OPEN):
        for id in sorted(os.listdir(staging)):
            with suppress(OSError), open(os.path.join(staging, id, name), "rb") as file:
                found.append(file.read().decode(errors="replace"))
    return found


def forget_failure(home: str) -> None:
    for name in (_FAILED, _DIED, _OPEN):
        _forget(home, name)


def _forget(home: str, mark: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(os.path.join(home, mark))


def read_kept(home: str) -> Kept:
    """What keep_sealed() would keep."""
    kept = Kept(0, 0, None)
    while (seal := _read_seal(home, kept.parts)) is not None:
        kept = Kept(kept.parts + 1, kept.records + seal.records, key_of(seal.last_key))
        if not seal.closed:
            break
    return kept


def keep_sealed(home: str) -> Kept:
    """Cut off what is not sealed, of a producer that is gone. The parts that stay are closed."""
    kept = read_kept(home)
    for number in range(kept.parts):
        seal = _read_seal(home, number)
        if seal is None:  # the place was taken away meanwhile, by who begins anew
            raise OSError(ESTALE, "gone")
        with open(_part_path(home, number), "r+b", buffering=0) as file, locked(file.fileno()):
            file.truncate(seal.bytes)
        if not seal.closed:
            closed = msgspec.structs.replace(seal, closed=True)
            write_file(os.path.join(home, f"{number:06}{SEAL}"), msgspec.json.encode(closed), sync=True)
    for name in os.listdir(home):
        if name.endswith((PART, SEAL)) and name[:6].isdecimal() and int(name[:6]) >= kept.parts:
            os.unlink(os.path.join(home, name))
    return kept


def _read_seal(home: str, number: int) -> Seal | None:
    """None when there is none, or none that is true."""
    try:
        with open(os.path.join(home, f"{number:06}{SEAL}"), "rb") as file:
            seal = msgspec.json.decode(file.read(), type=Seal)
        return seal if os.path.getsize(_part_path(home, number)) >= seal.bytes else None
    except (OSError, ValueError):
        return None


def _part_path(home: str, number: int) -> str:
    return os.path.join(home, f"{number:06}{PART}")


@contextmanager
def locked(fd: int) -> Iterator[None]:
    """With the lock that writes into a part take."""
    until = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() > until:
                raise OSError(ETIMEDOUT, f"a process has been writing for {LOCK_SECONDS:.0f} s") from None
            time.sleep(0.001)
    try:
        yield
    finally:
        fcntl.flock(fd, fcntl.LOCK_UN)


def write_file(path: str, data: bytes, *, sync: bool = False) -> None:
    """All of it at once, for whoever reads."""
    partial = f"{path}.{os.getpid()}-{secrets.token_hex(4)}"
    try:
        with open(partial, "wb") as file:
            file.write(data)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError:
        with suppress(OSError):
            os.unlink(partial)
        raise


def is_gone(error: OSError) -> bool:
    """Was the file or its directory taken away, by the commit or by another run?"""
    return error.errno in (ESTALE, ENOENT, ENOTDIR)


def refused(staging: str, error: OSError) -> WriteError:
    """What the system refused, and what to do."""
    if isinstance(error, WriteError):
        return error
    directory = os.path.dirname(staging)
    if is_gone(error):
        return WriteError(
            EBUSY,
            f"{directory}: the set was committed or given up, or its producer was closed, so nothing more "
            "can be written to it.\n"
            "  Write everything before the `with` block of the ShardedWriter ends: wait there for the "
            "threads and processes that write.",
        )
    return WriteError(
        error.errno,
        f"cannot write in {directory}: {error.strerror}. Nothing of this call was written, and nothing of "
        "the set is to be seen.\n"
        "  Free the cause and write it again. A writer with resume=True keeps what it has sealed.",
    )

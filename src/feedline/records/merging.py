"""merge: one file of many, whose bytes are copied as they are.

A plain file is records back to back, and a gzip file is members back to back, so the kernel copies: nothing
is decoded or compressed again. Every record is checked meanwhile, by a thread of its own, and the new file
appears only when all are copied and good.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from errno import EINVAL, ENOSYS, EOPNOTSUPP, EXDEV
from threading import Event, Thread

from feedline.errors import CorruptRecord, UsageError
from feedline.records.faults import to_error
from feedline.records.indexing import FRAMING
from feedline.records.new_file import NewFile, cannot_write
from feedline.records.paths import Files, resolve
from feedline.records.reading import Progress, open_reader, raise_fault
from feedline.records.telling import tell, told_in_common

_CHECK_BYTES = 1 << 23  # between two looks at whether the copying has failed
_COPY_BYTES = 1 << 25  # between two looks at whether the checking has, at progress, and at Ctrl-C
_BUFFER = 1 << 18  # stays in a core's cache between reading and writing


@dataclass(frozen=True)
class Merge:
    """What `merge` did: `out` holds so many records, and so many bytes of payload, of so many files."""

    out: str
    files: int
    records: int
    bytes: int


def merge(files: Files, out: str | os.PathLike[str], *, progress: Progress | None = None) -> Merge:
    """Join files, in the order given, to `out`, which appears only when it is complete.

    All must be plain, or all gzip. The first damaged record is a CorruptRecord, and there is no `out` then.
    If the files agree on the dtypes and shapes of their arrays, `features="auto"` reads `out` with them.
    `progress` is called with the number of file bytes copied and checked so far.

    >>> for name in ("a", "b"):
    ...     with feedline.TFRecordWriter(name) as writer:
    ...         writer.write(name.encode())
    >>> merge(["a", "b"], "both.tfrecord").records
    2
    >>> list(feedline.records.read("both.tfrecord"))
    [b'a', b'b']
    """
    paths, out = resolve(files), os.fspath(out)
    _refuse_to_overwrite(out, paths)
    _refuse_mixture(paths)
    sources = [_Source(path) for path in paths]
    features = told_in_common(paths)
    with NewFile(out) as file, _checking(sources) as check:
        copied = 0
        for source in sources:
            for part in _copy(source, file):
                copied += part
                check.raise_failure()
                if progress is not None:
                    progress(min(copied, check.passed))
        while check.is_alive():
            check.join(0.1)
            if progress is not None:
                progress(min(copied, check.passed))
        check.raise_failure()
    with suppress(OSError):  # the file is complete, and the features are a convenience
        tell(out, features)
    return Merge(out, len(paths), check.records, check.bytes)


def _refuse_to_overwrite(out: str, paths: list[str]) -> None:
    if not os.path.exists(out):
        return
    if any(os.path.exists(path) and os.path.samefile(path, out) for path in paths):
        raise UsageError(f"{out} is among the files to merge. Name a new file for the result.")
    raise UsageError(f"{out} exists already, and merge never overwrites. Name a new file for the result.")


def _refuse_mixture(paths: list[str]) -> None:
    kinds: dict[str, str] = {}
    for path in paths:
        if not os.path.isfile(path) and os.path.exists(path):
            raise UsageError(f"{path}: it is no regular file, and merge copies only those.")
        kind = open_reader(path, "auto", resync=False).compression
        if os.path.getsize(path):  # an empty file holds nothing of either kind
            kinds.setdefault(kind, path)
    if "zlib" in kinds:
        path = shlex.quote(kinds["zlib"])
        raise UsageError(
            f"{kinds['zlib']}: zlib files cannot be joined, because readers stop at the end of the first.\n"
            f"  To make plain copies, and merge those:  feedline repair {path} OUT"
        )
    if len(kinds) > 1:
        path = shlex.quote(kinds["gzip"])
        raise UsageError(
            f"{kinds['none']} is a plain file, and {kinds['gzip']} is gzip: they cannot be joined.\n"
            f"  To make plain copies of the latter, and merge those:  feedline repair {path} OUT"
        )


class _Source:
    """A file as it was when the merge began. That it still is so is asked when it was copied, and checked."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.size = os.path.getsize(path)
        self._identity = _identity(os.stat(path))

    def check_unchanged(self, now: os.stat_result) -> None:
        if _identity(now) != self._identity:
            raise self.changed()

    def changed(self) -> CorruptRecord:
        remedy = "Merge it when its writer is done."
        return CorruptRecord("it was written while it was read", path=self.path, remedy=remedy)


def _identity(now: os.stat_result) -> tuple[int, ...]:
    return now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns


def _copy(source: _Source, file: NewFile) -> Iterator[int]:
    """Append the file's bytes; gives the size of each part that was copied."""
    with open(source.path, "rb", buffering=0) as opened:
        left = source.size
        while left and (part := _copy_range(opened.fileno(), file, min(left, _COPY_BYTES))):
            left -= part
            yield part
        # What the kernel does not copy between these file systems; both go on where it stopped.
        buffer = memoryview(bytearray(_BUFFER if left else 0))
        while left and (part := opened.readinto(buffer[:left])):
            file.write(buffer[:part])
            left -= part
            yield part
        source.check_unchanged(os.fstat(opened.fileno()))


def _copy_range(source: int, file: NewFile, size: int) -> int:
    """How many bytes the kernel has copied; 0 when it cannot."""
    try:
        return os.copy_file_range(source, file.fd, size)
    except OSError as error:
        if error.errno in (EXDEV, EOPNOTSUPP, EINVAL, ENOSYS):
            return 0
        raise cannot_write(file.path, error) from error


@contextmanager
def _checking(sources: list[_Source]) -> Iterator[_Check]:
    check = _Check(sources)
    check.start()
    try:
        yield check
    finally:
        check.stop.set()
        check.join()


class _Check(Thread):
    """Checks every record of the files. A failure is kept for the thread that copies."""

    def __init__(self, sources: list[_Source]) -> None:
        super().__init__(name="feedline-merge-check", daemon=True)
        self.stop = Event()
        self.records = 0
        self.bytes = 0  # of payload
        self.passed = 0  # of the files
        self._sources = sources
        self._failure: BaseException | None = None

    def raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def run(self) -> None:
        try:
            for source in self._sources:
                self._check(source)
        except BaseException as error:
            self._failure = error

    def _check(self, source: _Source) -> None:
        reader = open_reader(source.path, "auto", resync=True)
        passed, records, size = self.passed, 0, 0
        while not reader.done:
            if self.stop.is_set():
                return
            good, checked, faults, end = reader.check(_CHECK_BYTES)
            raise_fault(end)
            if faults:
                raise to_error(faults[0])
            records += good
            size += checked
            self.passed = passed + reader.consumed
        if reader.padding:
            raise CorruptRecord(
                f"{reader.padding:,} zeros follow its last gzip member, and readers find nothing behind them",
                path=source.path,
                remedy=f"To make a plain copy:  feedline repair {shlex.quote(source.path)} OUT",
            )
        source.check_unchanged(os.stat(source.path))
        # A record that is just being appended is no part of the file for the reader, but is for the copy.
        if reader.compression == "none" and size + FRAMING * records != source.size:
            raise source.changed()
        self.records += records
        self.bytes += size

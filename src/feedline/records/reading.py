"""TFRecord files -> records, or batches of them: the loop that every other module here runs on.

Memory is bounded by the batch that is held and the chunk being read, whatever the size of the file.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Literal

from feedline import _native
from feedline.errors import UsageError
from feedline.records.faults import to_error
from feedline.records.paths import Files, compression_name, resolve
from feedline.records.same_set import SameSet

OnCorrupt = Literal["raise", "skip"]
Progress = Callable[[int], None]

# About what a core's second-level cache holds: bytes are checked and decoded while they are still there.
_BATCH_BYTES = 1 << 19
_BATCH_RECORDS = 1 << 14


def read(
    files: Files, *, compression: str | None = "auto", verify: bool = True, on_corrupt: OnCorrupt = "raise"
) -> Iterator[bytes]:
    """The records of the files, one after another, as bytes.

    With `on_corrupt="skip"` damaged records are dropped, and one warning at the end counts them.
    `verify=False` leaves the payloads' checksums unread; those of the headers are always checked.

    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "a.tfrecord")
    >>> _ = path.write_bytes(_native.frame(b"one") + _native.frame(b"two"))
    >>> list(read(path))
    [b'one', b'two']
    """
    skip = skips(on_corrupt)
    paths, kind = resolve(files), compression_name(compression)
    return _read(paths, SameSet(paths), kind, verify, skip)


def _read(paths: list[str], same_set: SameSet, compression: str, verify: bool, skip: bool) -> Iterator[bytes]:
    skipped = SkipCount()
    for path in paths:
        found = batches(path, compression, resync=skip, verify=verify)
        with same_set:
            first = [*islice(found, 1)]
        for _, batch in chain(first, found):
            records = batch.to_list()
            skipped.add(batch.take_skipped())
            bad = batch.check() if verify and not skip else []
            if bad:
                yield from records[: batch.numbers.tolist().index(bad[0].record)]
                raise to_error(bad[0])
            yield from records
    skipped.warn()


def batches(
    path: str, compression: str, *, resync: bool, verify: bool = True
) -> Iterator[tuple[_native.RecordReader, _native.RecordBatch]]:
    """Batches of one file, each with the reader that gave it.

    A damaged header raises after the records before it, and payloads are not checked. With `resync` both are,
    and what is damaged is left out and noted in the batch; `verify=False` spares the payloads there too.
    """
    reader = open_reader(path, compression, resync=resync, verify=verify)
    while not reader.done:
        batch, fault = reader.next(_BATCH_RECORDS, _BATCH_BYTES)
        yield reader, batch
        raise_fault(fault)


def open_reader(path: str, compression: str, *, resync: bool, verify: bool = True) -> _native.RecordReader:
    reader = _native.open_records(os.fsencode(path), compression, resync, verify)
    if isinstance(reader, _native.Fault):
        raise to_error(reader)
    return reader


def raise_fault(fault: _native.Fault | None) -> None:
    if fault is not None:
        raise to_error(fault)


def skips(on_corrupt: str) -> bool:
    if on_corrupt not in ("raise", "skip"):
        raise UsageError(f'on_corrupt={on_corrupt!r}: use "raise" or "skip".')
    return on_corrupt == "skip"


class SkipCount:
    """What was passed over, for one warning at the end instead of one for each."""

    def __init__(self) -> None:
        self.count = 0
        self._first: _native.Fault | None = None

    def add(self, faults: list[_native.Fault]) -> None:
        self.count += len(faults)
        if faults and self._first is None:
            self._first = faults[0]

    def warn(self) -> None:
        if self._first is not None:
            first = str(to_error(self._first)).splitlines()[0]
            warnings.warn(
                f"{self.count:,} damaged records or stretches were skipped. The first: {first}",
                RuntimeWarning,
                stacklevel=3,
            )

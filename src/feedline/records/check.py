"""verify: every damaged place of a file. repair: a copy that holds every good record."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, field

from feedline import _native
from feedline.errors import UsageError
from feedline.records.faults import foreign_file
from feedline.records.new_file import NewFile
from feedline.records.paths import compression_name
from feedline.records.reading import Progress, batches, open_reader, raise_fault
from feedline.records.telling import tell, told_in_common

_CHECK_BYTES = 1 << 23  # between two looks at progress and Ctrl-C


@dataclass(frozen=True)
class Finding:
    """A damaged record, or a stretch in which no header could be read."""

    path: str
    record: int | None
    offset: int | None
    what: str
    remedy: str = ""  # of a file that holds no TFRecords at all


@dataclass(frozen=True)
class Verification:
    """What `verify` saw: the number of good records, the bytes of their payload, and every damaged place."""

    path: str
    records: int
    bytes: int
    findings: list[Finding] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.findings


@dataclass(frozen=True)
class Repair:
    """What `repair` did: `kept` records are in `out`; `findings` says what was left behind."""

    path: str
    out: str
    kept: int
    findings: list[Finding]


def verify(
    path: str | os.PathLike[str], *, compression: str | None = "auto", progress: Progress | None = None
) -> Verification:
    """Check every header and payload of one file, to its end: damage is a finding, not an exception.

    `progress` is called with the number of file bytes read so far.
    """
    path = os.fspath(path)
    records = size = 0
    findings: list[Finding] = []
    reader = open_reader(path, compression_name(compression), resync=True)
    while not reader.done:
        good, checked, faults, end = reader.check(_CHECK_BYTES)
        raise_fault(end)
        records += good
        size += checked
        findings += map(_finding, faults)
        if progress is not None:
            progress(reader.consumed)
    foreign = foreign_file(path) if findings and not records else None
    if foreign is not None:
        findings = [Finding(path, None, None, foreign.what, foreign.remedy)]
    return Verification(path, records, size, findings)


def repair(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    compression: str | None = "auto",
    progress: Progress | None = None,
) -> Repair:
    """Copy every good record of `path` to `out`, a plain TFRecord file that appears only when it is complete.

    After a damaged stretch reading goes on at the next header whose checksum holds. A file of another known
    format, without a sound record, is CorruptRecord, and there is no `out`.
    """
    path, out = os.fspath(path), os.fspath(out)
    if os.path.exists(out):
        raise UsageError(f"{out} exists already, and repair never overwrites. Name a new file.")
    kept = 0
    findings: list[Finding] = []
    features = told_in_common([path])
    with NewFile(out) as file:
        for reader, batch in batches(path, compression_name(compression), resync=True):
            file.write(batch.frames())
            kept += len(batch)
            findings += map(_finding, batch.take_skipped())
            if progress is not None:
                progress(reader.consumed)
        foreign = foreign_file(path) if findings and not kept else None
        if foreign is not None:
            raise foreign
    with suppress(OSError):  # the file is complete, and the features are a convenience
        tell(out, features)
    return Repair(path, out, kept, findings)


def _finding(fault: _native.Fault) -> Finding:
    return Finding(fault.path, fault.record, fault.offset, fault.what)

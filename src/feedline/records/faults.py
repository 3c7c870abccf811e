"""The native core's faults -> exceptions that say what to do next."""

from __future__ import annotations

import errno
import os
import shlex
from typing import Any

from feedline import _native
from feedline._native import Fault
from feedline.errors import CorruptRecord, FeedlineError, NotAnExample, NotTFRecord, SchemaError
from feedline.records.known_formats import file_format, record_content

_ADVICE = {
    errno.ENOENT: ". Check the path; if it was listed before, the file has been removed since",
    errno.EACCES: ". Give this user the right to read it, or leave it out",
    errno.ELOOP: ". Its links lead in a circle: make them point to a file, or leave it out",
    errno.ENXIO: ". It is a socket, or a device that is not there: leave it out",
    errno.EMFILE: ". Raise ulimit -n, or close files that the program has open",
    errno.EIO: ". The disk or the network failed: see the system's log, and restore the file from a copy",
}
_SHOWN = 24  # bytes of a record that is no Example


def to_error(fault: Fault, *, checked: bool = True) -> FeedlineError | OSError | MemoryError:
    """The exception for a fault.

    What the operating system refused is an OSError of the right kind, FileNotFoundError and so on. `checked`:
    payloads were compared with their checksums before they were decoded.
    """
    if fault.kind == "io":
        if fault.os_error == errno.ENOMEM:
            return MemoryError(fault.what)
        # Others are the native core's own sentences, and say themselves what to do.
        advice = _ADVICE.get(fault.os_error, "") if fault.what.startswith("cannot ") else ""
        return OSError(fault.os_error, fault.what + advice, fault.path)
    if fault.kind == "schema":
        return SchemaError(fault.what, **_place(fault), remedy=_schema_remedy(fault))
    if fault.payload:
        return NotAnExample(_unlike(fault), **_place(fault), remedy=_example_remedy(fault, checked))
    foreign = foreign_file(fault.path) if fault.path and fault.offset == 0 else None
    return foreign or CorruptRecord(fault.what, **_place(fault), remedy=_remedy(fault))


def placed(
    error: SchemaError, *, path: str | None = None, record: int, offset: int | None = None
) -> SchemaError:
    """The error of a value that was looked at after its record had been decoded, with its place."""
    return SchemaError(
        error.what,
        path=path,
        record=record,
        offset=offset,
        feature=error.feature,
        remedy=f"{error.remedy}\n{_inspect(path)}",
    )


def _place(fault: Fault) -> dict[str, Any]:
    return {
        "path": fault.path or None,
        "record": fault.record,
        "offset": fault.offset,
        "feature": fault.feature or None,
    }


def foreign_file(path: str) -> NotTFRecord | None:
    """The error for a file without a sound record, if it is known what else it holds."""
    compression = _readable_as(path)
    known = None if compression else file_format(path)
    if compression:
        stored = "not compressed" if compression == "none" else f"{compression}-compressed"
        what = f"this TFRecord file is {stored}, but was opened with another compression setting"
        remedy = 'To tell the compression by the file:  leave `compression` at "auto"'
    elif known:
        what, remedy = f"this is {known.name}, not a TFRecord file", known.advice_for(path)
    else:
        return None
    return NotTFRecord(what, path=path, record=0, offset=0, remedy=remedy)


def _readable_as(path: str) -> str | None:
    """The compression with which the first record of a file can be read, if any."""
    if not os.path.isfile(path):  # a pipe would wait for its writer
        return None
    reader = _native.open_records(os.fsencode(path), "auto", False, True)
    if isinstance(reader, Fault):
        return None
    batch, fault = reader.next(1, 1)
    return reader.compression if fault is None and len(batch) and not batch.check() else None


def _unlike(fault: Fault) -> str:
    known = record_content(fault.payload)
    start = repr(fault.payload[:_SHOWN]) + (" ..." if len(fault.payload) > _SHOWN else "")
    if known is None:
        return f"{fault.what}, and the payload begins with {start}"
    return f"the payload looks like {known.name}: {start}"


def _example_remedy(fault: Fault, checked: bool) -> str:
    if not fault.path:
        return "To decode it:  give the bytes of a serialized tf.train.Example"
    sound = "Its length and checksum are right: the file is sound, and there is nothing to repair.\n"
    return (
        f"{sound if checked else ''}"
        "To decode it yourself:    read the bytes, without `features`, and decode them in map()\n"
        f"To look at the records:   feedline head {shlex.quote(fault.path)}\n"
        'To read past such ones:   pass on_corrupt="skip"'
    )


def _schema_remedy(fault: Fault) -> str:
    known = record_content(fault.payload)
    advice = "" if known is None else known.advice_for(fault.path or "FILE")
    hint = "" if known is None else f"The record looks like {known.name}. {advice}\n"
    return hint + _inspect(fault.path)


def _inspect(path: str | None) -> str:
    if path:
        return f"To see what the file holds:  feedline inspect {shlex.quote(path)}"
    return "To see what a file holds:  feedline inspect FILE"


def _remedy(fault: Fault) -> str:
    if not fault.path:
        return "The bytes are damaged, or are not a serialized tf.train.Example."
    path = shlex.quote(fault.path)
    return (
        f"To list every bad record:    feedline verify {path}\n"
        f"To keep the good records:    feedline repair {path} OUT\n"
        'To read past bad records:    pass on_corrupt="skip"'
    )

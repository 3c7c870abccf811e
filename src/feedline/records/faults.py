"""The native core's faults -> exceptions that say what to do next."""

from __future__ import annotations

import errno
import shlex

from feedline._native import Fault
from feedline.errors import CorruptRecord, FeedlineError, SchemaError


def to_error(fault: Fault) -> FeedlineError | OSError | MemoryError:
    """The exception for a fault.

    What the operating system refused is an OSError of the right kind, FileNotFoundError and so on.
    """
    if fault.kind == "io":
        if fault.os_error == errno.ENOMEM:
            return MemoryError(fault.what)
        return OSError(fault.os_error, fault.what, fault.path)
    kind = CorruptRecord if fault.kind == "corrupt" else SchemaError
    return kind(
        fault.what,
        path=fault.path or None,
        record=fault.record,
        offset=fault.offset,
        feature=fault.feature or None,
        remedy=_remedy(fault),
    )


def _remedy(fault: Fault) -> str:
    path = shlex.quote(fault.path)
    if fault.kind == "schema":
        if fault.path:
            return f"To see what the file holds:  feedline inspect {path}"
        return "To see what a file holds:  feedline inspect FILE"
    if not fault.path:
        return "The bytes are damaged, or are not a serialized tf.train.Example."
    return (
        f"To list every bad record:    feedline verify {path}\n"
        f"To keep the good records:    feedline repair {path} OUT\n"
        'To read past bad records:    pass on_corrupt="skip"'
    )

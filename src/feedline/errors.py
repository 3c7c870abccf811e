"""Every error of feedline. Each message says where, what, and what to do next; each can be pickled.

FeedlineError
├── UsageError(ValueError)              an argument that cannot be meant
│   ├── WrongKind                       what a function returns, or a dataset holds, is not what is needed
│   └── NotRepeatable                   a source that gives other elements when it is read again
├── CorruptRecord(ValueError)           a file whose bytes are damaged
│   ├── NotTFRecord                     a file of another format, or of another compression
│   └── NotAnExample                    a sound record that holds something else
├── SchemaError(ValueError)             sound bytes that are not what `features` says
├── WorkerError                         a user's function failed in a worker
│   └── WorkerDied                      a worker process went away
├── ServiceError                        a reader service that is not there, or refuses
├── CacheError                          a cache entry that cannot be read or filled
├── WriteError(OSError)                 records that could not be written
└── MissingDependency(ImportError)      an optional package that is not installed
"""

from __future__ import annotations

from typing import Any


class FeedlineError(Exception):
    """The root of the tree: `except FeedlineError` catches everything that feedline raises on purpose."""


class UsageError(FeedlineError, ValueError):
    """An argument that cannot be meant; nothing was read or written."""


class WrongKind(UsageError):
    """What a function returns, or a dataset holds, is of another kind than its step needs.

    That is a mistake in the program, whichever element it is: `ignore_errors` does not ignore it.
    """


class NotRepeatable(UsageError):
    """A source gives other elements when it is read again, so it cannot go on from where it was left."""


class _LocatedError(FeedlineError, ValueError):
    """An error at a place in a file. The place is kept in attributes, for programs."""

    verdict = ""

    def __init__(
        self,
        what: str,
        *,
        path: str | None = None,
        record: int | None = None,
        offset: int | None = None,
        feature: str | None = None,
        remedy: str = "",
    ) -> None:
        self.what = what
        self.path = path
        self.record = record
        self.offset = offset
        self.feature = feature
        self.remedy = remedy
        super().__init__(self._message())

    def _message(self) -> str:
        path = f"{self.path}: " if self.path else ""
        subject = f"feature {self.feature!r}: " if self.feature is not None else ""
        lines = [f"{path}{self._place()}{subject}{self.what}."]
        lines += [f"  {line}" for line in self.remedy.splitlines()]
        return "\n".join(lines)

    def _place(self) -> str:
        """Where in the file, and the verdict on it."""
        if self.record is None:
            return "" if self.offset is None else f"byte {self.offset:,} {self.verdict}: "
        at = "" if self.offset is None else f" at byte {self.offset:,}"
        return f"record {self.record:,}{at} {self.verdict}: "

    def __reduce__(self) -> tuple[Any, ...]:
        place = {name: getattr(self, name) for name in ("path", "record", "offset", "feature", "remedy")}
        return _rebuild, (type(self), self.what, place)


def _rebuild(kind: type[_LocatedError], what: str, place: dict[str, Any]) -> _LocatedError:
    return kind(what, **place)


class CorruptRecord(_LocatedError):
    """Bytes that are damaged: framing, checksum, compression or protobuf.

    >>> print(CorruptRecord("the footer is cut off", path="a.tfrecord", record=3, offset=120,
    ...                     remedy="To keep the good records:  feedline repair a.tfrecord good.tfrecord"))
    a.tfrecord: record 3 at byte 120 is corrupt: the footer is cut off.
      To keep the good records:  feedline repair a.tfrecord good.tfrecord
    """

    verdict = "is corrupt"


class NotTFRecord(CorruptRecord):
    """A file that holds something else from its first byte on, or is compressed otherwise than was said."""

    def _place(self) -> str:
        return ""  # it is the whole file


class NotAnExample(CorruptRecord):
    """A record that was written as it is, with a sound length and checksum, but is no tf.train.Example."""

    verdict = "is not a tf.train.Example"


class SchemaError(_LocatedError):
    """Sound bytes that are not what `features` says: a missing feature, another kind, another count."""

    verdict = "does not fit"


class WorkerError(FeedlineError):
    """A user's function failed in a worker."""


class WorkerDied(WorkerError):
    """A worker process went away."""


class ServiceError(FeedlineError):
    """A reader service that is not there, went away, or refuses to serve."""


class CacheError(FeedlineError):
    """A cache entry that cannot be read or filled."""


class WriteError(FeedlineError, OSError):
    """Records that could not be written; what was complete before is still there."""


class MissingDependency(FeedlineError, ImportError):
    """An optional package that is not installed; the message holds the command that installs it."""

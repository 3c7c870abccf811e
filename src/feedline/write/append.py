"""AppendWriter: one growing file that threads and independent processes append to.

Every write locks the file (flock), goes over what others have appended since the last one, and writes behind
it in one go: so the file is whole records at any time, but for one that is being written, or whose writer
died in it. The next write by anyone, and the next open, cut that off. Nothing is cut that has sound records
behind it: that is damage, and an error.

Locks belong to an open file, which a forked child shares: it lets go of it and opens its own.
"""

from __future__ import annotations

import fcntl
import os
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from errno import EBADF, ECANCELED
from threading import Lock
from types import TracebackType
from typing import Any
from weakref import WeakSet

from feedline import _native
from feedline.errors import CorruptRecord, SchemaError, UsageError, WriteError
from feedline.records.common_features import common_features
from feedline.records.feature_texts import Known
from feedline.records.indexing import known_end
from feedline.records.reading import open_reader
from feedline.records.surveying import survey_start
from feedline.records.telling import needs_telling, tell, told_in_common
from feedline.write.continued import continued
from feedline.write.fitting import Fitting
from feedline.write.producers import FileProducer, Producers
from feedline.write.thread_deaths import Wrote

_NOTHING_WRITTEN = "Nothing of this was written, and the file is as it was. Fix the cause and try again."
_NOT_FLUSHED = "The records are in the file, but not all of them may be on the disk; check it."


class AppendWriter:
    """Appends records to a file, which is made if there is none, from any number of threads and processes.

    What write() returned from is in the file, and stays there if the process is killed; if the machine loses
    power, only what was flushed. All who write must do so with an AppendWriter, and each may open its own, or
    get one by pickle or fork. Anyone may read meanwhile: a reader gets the records that were whole when it
    opened the file.

    >>> with AppendWriter("log.tfrecord") as log:
    ...     log.write({"step": 1})
    >>> with AppendWriter("log.tfrecord") as log:
    ...     log.write_batch({"step": [2, 3]})
    >>> feedline.records.count("log.tfrecord")
    3

    Examples must have the features of those that the file holds already: a value of another dtype is
    converted if that is exact, and refused otherwise. When the file is renamed, replaced or removed, what
    follows goes to the file that has the name then, or to a new one. Opening walks over the
    headers of all records, or of those behind the last that an index of the file (`records.index`) has.

    What was appended cannot be taken back. So if a thread of this process that wrote dies by an exception, or
    the block of a `producer(name)` raises, close() raises a WriteError that says so, and the records stay.

    Python's numbers and strings are stored as lists of an Example, floats as float32. NumPy's arrays and
    scalars come back from from_tfrecords(features="auto") with their dtype and shape; decision 14 (in
    docs/decisions) says how each is stored.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.path.abspath(path)
        if "\0" in self._path:
            raise UsageError(f"AppendWriter({os.fspath(path)!r}): a path cannot hold a zero byte.")
        self._fitting = Fitting(share=self._in_file)
        self._lock = Lock()
        self._file: _native.AppendFile | None = self._open()
        self._wrote = Wrote()
        self._producers = Producers(self._wrote.is_here)
        self._fitting.features = self._told = told_in_common([self._path])
        _writers.add(self)

    def write(self, example: Mapping[str, Any] | bytes) -> None:
        """A dict of features, as a tf.train.Example; or the bytes of a record as they are."""
        self._wrote.here = True
        record = example if type(example) is bytes else self._fitting.record(example)
        with self._lock:
            fault = self._opened().append(record)
        if fault is not None:
            raise self._refused(fault)
        self._tell()

    def write_batch(self, columns: Mapping[str, Any] | Sequence[bytes]) -> None:
        """An example for each row of the columns, each an array, a list or a Ragged: many times faster.

        Or a list of records that are bytes already.
        They are adjacent in the file. A process that is killed meanwhile may have written the first few.
        """
        self._wrote.here = True
        records, offsets = self._fitting.records(columns)
        with self._lock:
            fault = self._opened().append_batch(records, offsets)
        if fault is not None:
            raise self._refused(fault)
        self._tell()

    def flush(self) -> None:
        """What was written is on the disk."""
        with self._lock:
            fault = self._opened().sync()
        if fault is not None:
            raise self._refused(fault, _NOT_FLUSHED)

    def producer(self, name: str) -> FileProducer:
        """A source of records, for a `with` block: close() is a WriteError if it raises, or has not ended.

        What was appended until then stays in the file.
        """
        return FileProducer(self, self._producers, name)

    def close(self) -> None:
        """Flush, and let go of the file. Called again, nothing happens.

        WriteError if a producer or a thread failed: the file is sound, but not all was appended.
        """
        if self._let_go():
            failure = self._producers.failure()
            if failure is not None:
                raise WriteError(
                    ECANCELED,
                    f"{self._path}: {failure}. The records that were appended before stay in the file.\n"
                    "  Fix the cause, and append what is missing.",
                )

    def _let_go(self) -> bool:
        """False if it was closed already."""
        with self._lock:
            file, self._file = self._file, None
            if file is None:
                return False
            fault = file.sync()
            file.close()
            self._producers.close()
        if fault is not None:
            raise self._refused(fault, _NOT_FLUSHED)
        return True

    def _in_file(self, known: Known | None, learned: Known) -> Known | None:
        """What the records of the file are, when the first example is written: it must be like them."""
        if known is not None:
            return None
        told = told_in_common([self._path])
        if told is not None:
            return told
        held = survey_start(self._path)
        return None if held is None else continued(held, learned)

    def _tell(self) -> None:
        """Keep what was learned of the features beside the file, with what other processes have learned.

        After the records, because a sidecar is of a file that has some. A process that is killed in between
        leaves it to the next.
        """
        features = self._fitting.features
        if features is self._told or not needs_telling(features):
            return
        assert features is not None
        try:
            with open(self._path, "r+b") as file:  # NFS locks only what is open for writing
                fcntl.flock(file, fcntl.LOCK_EX)  # as every write does
                others = told_in_common([self._path])
                with suppress(SchemaError):  # of two that began at once with examples unlike each other
                    tell(self._path, features if others is None else common_features(others, features))
        except OSError as error:
            raise WriteError(
                error.errno,
                f"{self._path}: the records are in the file, but the dtypes and shapes of their arrays "
                f"cannot be stored beside it: {error.strerror}.\n  Read it with `features`.",
            ) from error
        self._told = features

    def _open(self) -> _native.AppendFile:
        file = _native.open_append(os.fsencode(self._path), *known_end(self._path))
        if isinstance(file, _native.Fault):
            raise self._refused(file)
        return file

    def _opened(self) -> _native.AppendFile:
        if self._file is None:
            raise WriteError(EBADF, f"cannot append to {self._path}: the writer is closed. Open another.")
        return self._file

    def _refused(self, fault: _native.Fault, remedy: str = _NOTHING_WRITTEN) -> Exception:
        if fault.kind == "io":
            return WriteError(
                fault.os_error,
                f"cannot append to {self._path}: {fault.what}.\n  {remedy}",
            )
        if fault.offset == 0 and open_reader(self._path, "auto", resync=False).compression != "none":
            return UsageError(
                f"cannot append to {self._path}: it is compressed.\n"
                "  Append to a plain file, or write another one and join them:  feedline merge FILES... OUT"
            )
        path = shlex.quote(self._path)
        return CorruptRecord(
            fault.what,
            path=self._path,
            record=fault.record,
            offset=fault.offset,
            remedy="A writer that was killed leaves no such thing, so nothing was cut off or appended.\n"
            f"To list every bad record:    feedline verify {path}\n"
            f"To keep the good records:    feedline repair {path} OUT",
        )

    def _after_fork(self) -> None:
        """In the child: the open file is the parent's, and threads that are not there may have locks."""
        features = self._fitting.features
        self._fitting, self._lock = Fitting(share=self._in_file), Lock()
        self._fitting.features = features
        if self._file is not None:
            self._producers.close()
            self._wrote = Wrote()
            self._producers = Producers(self._wrote.is_here)
            self._file.close()  # the next write opens it again

    def __enter__(self) -> AppendWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self._let_go()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._path,), self._fitting.features

    def __setstate__(self, features: Any) -> None:
        self._fitting.features = features or self._told


# A child that kept the file open would keep the lock, too, of a parent that was killed while it had it.
_writers: WeakSet[AppendWriter] = WeakSet()


def _let_go() -> None:
    for writer in list(_writers):
        writer._after_fork()


os.register_at_fork(after_in_child=_let_go)

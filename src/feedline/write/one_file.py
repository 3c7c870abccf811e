"""TFRecordWriter: one file that any number of threads write, and that appears when it is complete."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from errno import EBADF, ECANCELED
from threading import RLock
from types import TracebackType
from typing import Any

from feedline import _native
from feedline.errors import UsageError, WriteError
from feedline.records.encode import refused
from feedline.records.new_file import NewFile
from feedline.records.paths import compression_name
from feedline.records.telling import tell
from feedline.write.fitting import Fitting
from feedline.write.producers import FileProducer, Producers


class TFRecordWriter:
    """Writes records to one file, from any number of threads.

    The file has its name only after close(), which leaving a `with` block calls: until then there is nothing,
    or what was there before. An exception in the block aborts it. Records of one thread keep their order.

    If a thread that wrote dies by an exception, close() raises a WriteError and nothing is published. An
    executor or a pool keeps the exceptions of its threads to itself: write in the block of a `producer(name)`
    there.

    >>> with TFRecordWriter("numbers.tfrecord") as writer:
    ...     writer.write({"n": 1})
    ...     writer.write_batch({"n": [2, 3]})
    >>> feedline.records.count("numbers.tfrecord")
    3

    `features` says what examples must be, and how they are stored; without it, the first one does.

    Python's numbers and strings are stored as lists of an Example, floats as float32. NumPy's arrays and
    scalars come back from from_tfrecords(features="auto") with their dtype and shape; decision 14 (in
    docs/decisions) says how each is stored.

    close() waits until the disk has the file, so that it survives a power failure. With `durable=False` it
    does not wait: many small files are written much faster. The file still appears all at once, and a killed
    process still leaves nothing; but after a power failure it may be gone, empty or incomplete.

    While a writer is open, a second one for the same path, in this process or another, is a WriteError.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        compression: str | None = None,
        features: Mapping[str, Any] | None = None,
        durable: bool = True,
    ) -> None:
        kind = written_compression(compression)
        self._fitting = Fitting(features)
        self._file = NewFile(path)
        self._sink = _native.RecordSink(self._file.fd, kind)
        self._add = self._sink.add
        self._producers = Producers(self._sink.has_this_thread)
        self._ending = RLock()  # a signal's handler may abort while its thread closes
        self._is_open = True
        self._durable = durable

    def write(self, example: Mapping[str, Any] | bytes) -> None:
        """A dict of features, as a tf.train.Example; or the bytes of a record as they are."""
        if type(example) is not bytes:
            self._sink.note_thread()  # first: a thread that dies of an example has not written all, either
            example = self._fitting.record(example)
        fault = self._add(example)
        if fault is not None:
            raise self._refused(fault)

    def write_batch(self, columns: Mapping[str, Any] | Sequence[bytes]) -> None:
        """An example for each row of the columns, each an array, a list or a Ragged: many times faster.

        Or a list of records that are bytes already.
        """
        self._sink.note_thread()
        if isinstance(columns, Mapping):
            fault = self._fitting.encoder(columns).write_to(self._sink)
        else:
            fault = self._sink.add_many(*self._fitting.records(columns))
        if fault is not None:
            raise self._refused(fault) if fault.kind == "io" else refused(fault)

    def producer(self, name: str) -> FileProducer:
        """A source of records, for a `with` block: if it raises, or has not ended at close(), nothing is
        published.

        >>> from concurrent.futures import ThreadPoolExecutor
        >>> def produce(writer, number):
        ...     with writer.producer(f"source {number}") as out:
        ...         out.write({"n": 1 // number})
        >>> with TFRecordWriter("inverses.tfrecord") as writer, ThreadPoolExecutor() as pool:
        ...     for number in range(3):
        ...         _ = pool.submit(produce, writer, number)
        Traceback (most recent call last):
        feedline.errors.WriteError: [Errno 125] inverses.tfrecord: producer 'source 0' failed with
        ZeroDivisionError: integer division or modulo by zero. Nothing was published.
          Fix the cause, and write the file again.
        """
        return FileProducer(self, self._producers, name)

    def close(self) -> None:
        """Publish the file: it is complete, on the disk if `durable`, and has its name. Called again, nothing
        happens."""
        with self._ending:
            if not self._is_open:
                return
            fault = self._sink.close()
            if fault is not None:
                self.abort()
                raise self._refused(fault)
            failure = self._producers.failure()
            if failure is not None:
                self.abort()
                raise WriteError(
                    ECANCELED,
                    f"{self._file.path}: {failure}. Nothing was published.\n"
                    "  Fix the cause, and write the file again.",
                )
            try:
                self._file.commit(durable=self._durable)
            finally:
                self.abort()
            self._tell()

    def _tell(self) -> None:
        try:
            tell(self._file.path, self._fitting.features, durable=self._durable)
        except OSError as error:
            raise WriteError(
                error.errno,
                f"{self._file.path} is complete, but the dtypes and shapes of its arrays cannot be stored "
                f"beside it: {error.strerror}.\n"
                "  Read it with `features`, or write it again when the cause is gone.",
            ) from error

    def abort(self) -> None:
        """There was never such a file. After close() nothing is done."""
        with self._ending:
            if not self._is_open:
                return
            self._sink.drop()  # before its descriptor becomes another file's
            self._file.abort()
            self._producers.close()
            self._is_open = False

    def _refused(self, fault: _native.Fault) -> WriteError:
        remedy = (
            "Write all records before the writer is closed, in the process that opened it."
            if fault.os_error == EBADF
            else "Nothing was published. Fix the cause and write the file again."
        )
        return WriteError(fault.os_error, f"cannot write {self._file.path}: {fault.what}.\n  {remedy}")

    def __enter__(self) -> TFRecordWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.close()
        finally:
            self.abort()

    def __reduce__(self) -> Any:
        raise UsageError(
            f"{self._file.path}: a TFRecordWriter belongs to one process. Several write with "
            "feedline.ShardedWriter, or append to one file with feedline.AppendWriter."
        )

    def __del__(self) -> None:
        if getattr(self, "_is_open", False):
            if self._file.is_mine:
                told = f"{self._file.path}: its writer was never closed, so there is no such file."
                warnings.warn(told, RuntimeWarning, stacklevel=2)
            self.abort()


def written_compression(compression: str | None) -> str:
    kind = compression_name(compression)
    if kind == "auto":
        raise UsageError('compression="auto" is for reading; write with "GZIP", "ZLIB" or None.')
    return kind

"""ShardedWriter: many files, written by many threads and processes, that appear all together or not at all.

write/parts       what each producer wrote, in files of its own
write/staging     where those of one run lie, and what examples are like
write/runs        runs that were cut short: resumed or removed
write/assemble    parts -> shards
records/publishing    the commit
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from errno import ECANCELED
from threading import Event
from types import TracebackType
from typing import Any, Literal, cast

from feedline.column import Bytes
from feedline.errors import UsageError, WriteError
from feedline.graph.arguments import bytes_of
from feedline.records.feature_texts import feature_texts
from feedline.records.holder import Holder
from feedline.records.publishing import check_strangers, commit, recover
from feedline.records.shard_files import (
    VERSION,
    Manifest,
    check_prefix,
    check_shards,
    read_manifest,
)
from feedline.write import runs
from feedline.write.assemble import balanced, limited, producers_in, progress_of, walk, write_shards
from feedline.write.committed import Committed, CommittedProducer
from feedline.write.keys import checked_key
from feedline.write.one_file import written_compression
from feedline.write.parts import PartWriter, failures_in
from feedline.write.producers import checked_name
from feedline.write.staging import Staging, join, read_features

_Compression = Literal["none", "gzip", "zlib"]
_SHARD_BYTES = 256_000_000  # of a shard, if nothing else is said


class Producer:
    """One source of records of a ShardedWriter, which may run in any process: one at a time, under this name.

    `count` says how many of its records there are, and `last_key` the key that was given with the last of
    them. After a crash, in a writer that is opened with resume=True, that is where to go on.
    """

    def __init__(self, staging: Staging | Committed, name: str | None) -> None:
        self._staging = staging
        self._name = name
        self._parts: PartWriter | CommittedProducer = staging.own if name is None else staging.producer(name)

    @property
    def count(self) -> int:
        return self._parts.count

    @property
    def last_key(self) -> Any:
        return self._parts.last_key

    def write(self, example: Mapping[str, Any] | bytes, key: Any = None) -> None:
        """A dict of features, as a tf.train.Example; or the bytes of a record as they are.

        When it returns, the record does not depend on this process any more. `key` is text, a number, or a
        tuple of them, and says where to go on after this record.
        """
        self._parts.note_thread()
        if key is not None:
            key = checked_key(key)
        self._parts.append(example if type(example) is bytes else self._staging.record(example), key)

    def write_batch(self, columns: Mapping[str, Any] | Sequence[bytes] | Bytes, key: Any = None) -> None:
        """An example for each row of the columns, each an array, a list or a Ragged: many times faster.

        Or a list of records that are bytes. All rows are written or none. `key` says where to go on after the
        last.
        """
        self._parts.note_thread()
        if key is not None:
            key = checked_key(key)
        self._parts.append_many(*self._staging.records(columns), key)

    def close(self) -> None:
        """Seal what was written: it is kept if the machine goes down. The name is free for another
        process."""
        self._parts.close()

    def __enter__(self) -> Producer:
        self._parts.enter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except BaseException as failure:
            self._parts.leave(failure)
            raise
        self._parts.leave(error)

    def __reduce__(self) -> Any:
        return Producer, (self._staging, self._name)


class ShardedWriter:
    """Writes a set of TFRecord files, `data-00000-of-00016.tfrecord` and so on, from any number of threads
    and processes.

    The set is there when the `with` block ends, all of it, in place of the one that was there before; an
    exception in the block leaves everything as it was. Hand the writer to other processes as it is, by pickle
    or by fork: they write, and the process that opened it commits, once they are done. A `with` block there,
    of the writer or of a producer(name), that fails, is killed or has not ended keeps the set from being
    committed, too. So does a thread that wrote and died by an exception, in any of the processes. An executor
    or a pool of threads keeps exceptions to itself: use a producer(name) there.

    >>> with ShardedWriter("numbers", shards=2) as writer:
    ...     writer.write({"n": 1})
    ...     writer.write_batch({"n": [2, 3]})
    >>> feedline.records.resolve("numbers")
    ['numbers/data-00000-of-00002.tfrecord', 'numbers/data-00001-of-00002.tfrecord']
    >>> feedline.records.count("numbers")
    3

    `shards` is their number: they hold the same number of records, give or take one. Or `max_shard_bytes`, as
    a number or "100MB", is what each has at most; with neither it is 256 MB. All examples must be like the
    first one.

    Python's numbers and strings are stored as lists of an Example, floats as float32. NumPy's arrays and
    scalars come back from from_tfrecords(features="auto") with their dtype and shape; decision 14 (in
    docs/decisions) says how each is stored.

    With `resume=True`, a run that was killed is taken up again: what producers had sealed is kept, and
    `count` and `last_key`, of the writer itself and of each `producer(name)`, say how far they got. What
    other processes wrote without a name is not kept. When the set was committed already, the counts say so,
    and to write more is a UsageError.

    >>> with ShardedWriter("letters", resume=True) as writer:
    ...     for i in range(writer.count, 26):
    ...         writer.write({"letter": chr(97 + i)}, key=i)
    >>> with ShardedWriter("letters", resume=True) as writer:
    ...     print(writer.count, writer.last_key)
    26 25
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        shards: int | None = None,
        prefix: str = "data",
        max_shard_bytes: int | str | None = None,
        compression: str | None = None,
        resume: bool = False,
    ) -> None:
        self._directory = os.path.abspath(os.fsdecode(directory))
        self._prefix = check_prefix(prefix)
        self._shards, self._limit = _divided(shards, max_shard_bytes)
        self._compression = cast(_Compression, written_compression(compression))
        self._resume = resume
        self._opener = os.getpid()
        self._holder: Holder | None = None
        try:
            os.makedirs(self._directory, exist_ok=True)
            self._holder = Holder(self._directory, self._prefix)
            self._staging = self._open()
        except BaseException as error:
            if self._holder is not None:
                self._holder.release()
            if isinstance(error, OSError) and not isinstance(error, WriteError):
                raise self._refused(error) from error
            raise
        self._own = Producer(self._staging, None)

    def _open(self) -> Staging | Committed:
        directory, prefix = self._directory, self._prefix
        committed = recover(directory, prefix)
        left = runs.left(directory, prefix, committed)
        check_strangers(directory, prefix, committed)
        if self._resume and left:
            path = runs.take_over(directory, prefix, left.pop())
        elif self._resume and committed is not None:
            return Committed(directory, committed)
        else:
            path = runs.begin(directory, prefix)
        for id in left:
            runs.remove(directory, prefix, id)
        return join(path, self._limit, is_opener=True)

    @property
    def count(self) -> int:
        """Records that this process has written without a producer's name, with those that are kept of an
        earlier run."""
        return self._own.count

    @property
    def last_key(self) -> Any:
        """The key that was given with the last of them."""
        return self._own.last_key

    def write(self, example: Mapping[str, Any] | bytes, key: Any = None) -> None:
        """A dict of features, as a tf.train.Example; or the bytes of a record as they are.

        When it returns, the record does not depend on this process any more.
        """
        self._own.write(example, key)

    def write_batch(self, columns: Mapping[str, Any] | Sequence[bytes] | Bytes, key: Any = None) -> None:
        """An example for each row of the columns, each an array, a list or a Ragged: many times faster.

        Or a list of records that are bytes. All rows are written or none.
        """
        self._own.write_batch(columns, key)

    def _write_each(self, columns: Mapping[str, Any] | Bytes) -> None:
        """The same for rows of which some may be written and others not, when it fails. Where shards end does
        not depend on how many come at a time."""
        assert isinstance(self._staging, Staging)
        self._staging.own.append_each(*self._staging.records(columns))

    def producer(self, name: str) -> Producer:
        """A source of records with a name, by which it is known when the writer is opened again with
        resume=True.

        In the set, records come in the order of the producers' names, after those of the process that opened
        the writer and before those of other processes without a name.
        """
        return Producer(self._staging, checked_name(name))

    def close(self) -> None:
        """Commit the set. In other processes than that which opened the writer, nothing happens."""
        holder = self._take_holder()
        if holder is not None:
            try:
                if isinstance(self._staging, Staging):
                    self._commit(self._staging)
            except OSError as error:
                raise error if isinstance(error, WriteError) else self._refused(error) from error
            finally:
                holder.release()

    def abort(self) -> None:
        """Give up: nothing was ever written. After close() nothing is done."""
        holder = self._take_holder()
        if holder is not None:
            try:
                if isinstance(self._staging, Staging):
                    self._staging.drop()
                    runs.remove(self._directory, self._prefix, self._staging.id)
            finally:
                holder.release()

    def _keep(self) -> None:
        """Give up for now: what is sealed is there for resume=True."""
        holder = self._take_holder()
        if holder is not None:
            with suppress(OSError):
                if isinstance(self._staging, Staging):
                    self._staging.close()
            holder.release()

    def _take_holder(self) -> Holder | None:
        """For the first who ends it: None for others, in copies, and in a forked child."""
        holder, self._holder = self._holder, None
        return holder if holder is not None and holder.is_mine else None

    def _commit(self, staging: Staging) -> None:
        staging.close()
        failures = failures_in(staging.path)
        if failures:
            more = f", and {len(failures) - 1} more" if len(failures) > 1 else ""
            raise WriteError(
                ECANCELED,
                f"{self._directory}: the set is not complete, and nothing was committed. Not all was "
                f"written by {failures[0]}{more}.\n"
                "  To keep what producers sealed and write the rest, open the writer again with resume=True.",
            )
        id = runs.new_id()
        path = runs.fence(self._directory, self._prefix, staging.id, id)
        replaced = read_manifest(self._directory, self._prefix)
        commit(self._directory, self._prefix, id, replaced, lambda place: self._assemble(path, place, id))
        runs.remove(self._directory, self._prefix, id)

    def _assemble(self, path: str, place: str, id: str) -> Manifest:
        from importlib.metadata import version

        stop = Event()
        producers = producers_in(path)
        walked = walk(producers, stop)
        parts = [part for each in walked for part in each]
        shards = limited(parts, self._limit) if self._limit is not None else balanced(parts, self._shards)
        features = read_features(path)
        return Manifest(
            version=VERSION,
            id=id,
            feedline=version("feedline"),
            compression=self._compression,
            shards=write_shards(place, self._prefix, shards, self._compression, stop),
            producers=tuple(
                progress_of(*one) for one in zip(producers, walked, strict=True) if one[0].is_resumable
            ),
            features=None if features is None else feature_texts(features),
        )

    def _refused(self, error: OSError) -> WriteError:
        return WriteError(
            error.errno,
            f"cannot write in {self._directory}: {error.strerror}. Nothing of the set is to be seen.\n"
            "  Free the cause and write it again. A writer with resume=True keeps what it has sealed.",
        )

    def __enter__(self) -> ShardedWriter:
        if self._is_elsewhere:
            self._own._parts.enter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_elsewhere:
            self._own._parts.leave(error)
        elif kind is None:
            self.close()
        elif self._resume:
            self._keep()
        else:
            self.abort()

    @property
    def _is_elsewhere(self) -> bool:
        """A copy, or in a forked child: it writes, and does not commit."""
        return self._opener != os.getpid()

    def __reduce__(self) -> Any:
        return _copied, (self._directory, self._prefix, self._staging)

    def __del__(self) -> None:
        holder = getattr(self, "_holder", None)
        if holder is not None and holder.is_mine:
            warnings.warn(
                f"{self._directory}: its writer was never closed, so nothing of the set is to be seen.",
                RuntimeWarning,
                stacklevel=2,
            )
            self._keep()


def _copied(directory: str, prefix: str, staging: Staging | Committed) -> ShardedWriter:
    """The writer in another process, which writes, and does not commit."""
    writer = ShardedWriter.__new__(ShardedWriter)
    writer._directory, writer._prefix, writer._staging = directory, prefix, staging
    writer._holder, writer._resume, writer._opener = None, True, 0
    writer._own = Producer(staging, None)
    return writer


def _divided(shards: Any, max_shard_bytes: Any) -> tuple[int, int | None]:
    """How many shards, or how large."""
    if shards is None:
        given = _SHARD_BYTES if max_shard_bytes is None else max_shard_bytes
        return 0, bytes_of("ShardedWriter", "max_shard_bytes", given)
    if max_shard_bytes is not None:
        raise UsageError(
            f"ShardedWriter(shards={shards!r}, max_shard_bytes={max_shard_bytes!r}): the number of shards "
            "follows from their size, or their size from the number. Give one of them."
        )
    return check_shards("ShardedWriter", shards), None

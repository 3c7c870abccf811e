"""mode="split" in a host: the streams behind the leases of a pass.

A Producer reads the input ahead, and blocks are leased in pieces: all that a client gets is a range of
rows in a block, so that several may have parts of the same one without a copy. The size of pieces depends
on the client: larger as long as it comes back at once, so that the pass is divided finely, and large
pieces spare messages.

A lease that was delivered before is found among the producer's last blocks, or read again from its state.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from feedline.block import Block
from feedline.errors import NotRepeatable, ServiceError, UsageError
from feedline.graph import Context, Cursor, Node, seeded
from feedline.graph.stream import State
from feedline.graph.waiting import Stopped, stoppable
from feedline.run.memory import Supply
from feedline.serve.job import Epoch, Job
from feedline.serve.leases import Delivery, End, Lease, Pass, Read, Wait
from feedline.serve.limits import Kept
from feedline.serve.pipeline import Pipeline
from feedline.serve.producer import Entry, Producer, pickled
from feedline.serve.protocol import Acknowledge, Joined, OpenSplit

_FIRST_ROWS = 16
_MOST_ROWS = 1 << 14
_SOON = 0.01  # seconds: a client that comes back within them gets more rows, and after ten times that, fewer


class Splits:
    """The jobs of a host."""

    def __init__(self, directory: str, kept: Kept, supply: Supply, wake: Callable[[], None]) -> None:
        self._directory = directory
        self._kept = kept
        self._supply = supply
        self.wake = wake
        self._jobs: dict[str, Job] = {}
        self._inputs: dict[tuple[str, Epoch], _Input] = {}

    def join(self, asked: OpenSplit) -> tuple[SplitFeed, Joined]:
        job = self._job(asked.job)
        one, after = job.join(asked, time.monotonic())
        key = asked.job, tuple(asked.epoch)
        found = self._inputs.get(key)
        if found is None:
            pipeline = _SeededPipeline(asked, self._kept, job.terms.seeds)
            found = self._inputs[key] = _Input(one, pipeline, self._kept, self._supply, self.wake)
        found.readers += 1
        feed = SplitFeed(self, job, key[1], one, found, asked.client)
        return feed, Joined(job.terms.generation, after, one.is_complete)

    def leave(self, job: Job, epoch: Epoch, client: str) -> None:
        job.leave(client, epoch, time.monotonic())
        found = self._inputs[job.name, epoch]
        found.readers -= 1
        if not found.readers:
            found.close()
            del self._inputs[job.name, epoch]
        self.wake()  # others may get what it held

    def acknowledge(self, asked: Acknowledge) -> None:
        self._job(asked.job).acknowledge(asked, time.monotonic())
        self.wake()

    def _job(self, name: str) -> Job:
        job = self._jobs.get(name)
        if job is None:
            job = self._jobs[name] = Job(name, self._directory, time.monotonic())
        return job

    def tick(self) -> None:
        for job in self._jobs.values():
            with suppress(OSError):  # the next client that relies on it is told
                job.tick(time.monotonic())

    def progress(self) -> list[dict[str, object]]:
        return [job.progress() for job in self._jobs.values()]


class _SeededPipeline(Pipeline):
    """With the seeds of the job: steps that draw their own have other ones in every client."""

    def __init__(self, asked: OpenSplit, kept: Kept, seeds: tuple[int, ...]) -> None:
        super().__init__(asked.outline, asked.opening, kept)
        self._seeds = seeds

    def _context(self, context: Context, node: Node) -> Context:
        return seeded(replace(super()._context(context, node), must_repeat=True), node, self._seeds)

    def cursor(self, state: State) -> Cursor:
        node, context = self._load()
        return Cursor(self._context(context, node), node, state)


class SplitFeed:
    """What one client reads."""

    def __init__(
        self, splits: Splits, job: Job, epoch: Epoch, leases: Pass, source: _Input, name: str
    ) -> None:
        self._splits = splits
        self._job = job
        self._epoch = epoch
        self._leases = leases
        self._source = source
        self._name = name
        self._after = 0
        self._rows = _FIRST_ROWS  # that it gets at most
        self._given: float | None = None  # when it got something last

    def ask(self, after: int | None) -> None:
        self._after = after or 0
        if self._given is not None:
            seconds = time.monotonic() - self._given
            if seconds < _SOON:
                self._rows = min(2 * self._rows, _MOST_ROWS)
            elif seconds > 10 * _SOON:
                self._rows = max(self._rows // 2, 1)

    def next(self) -> Entry | None:
        try:
            entry = self._next()
        except (UsageError, ServiceError, OSError) as error:
            return Entry("", None, error=pickled(error))
        if entry is not None:
            self._given = time.monotonic()
        return entry

    def _next(self) -> Entry | None:
        while True:
            match self._leases.next(self._name, self._after, time.monotonic()):
                case Delivery() as delivery:
                    return _to_client(delivery, self._source.read_again(self, delivery.lease))
                case Read():
                    entry = self._source.peek(self._rows)
                    if entry is None or entry.after is None:
                        return entry
                    if entry.is_last:
                        self._leases.end_input()
                        self._splits.wake()  # those that wait for the end
                        continue
                    delivery = self._leases.add(self._name, entry.rows, json.loads(entry.after))
                    return _to_client(delivery, self._source.take(entry))
                case Wait():
                    return None
                case End():
                    return Entry("", str(self._after))

    def finish(self) -> None:
        self._job.finish(self._name, self._epoch, time.monotonic())

    def close(self) -> None:
        self._source.forget(self)
        self._splits.leave(self._job, self._epoch, self._name)


def _to_client(delivery: Delivery, entry: Entry | None) -> Entry | None:
    """With the client's position after it. It has none if the input could not be read."""
    return entry if entry is None or entry.after is None else replace(entry, after=str(delivery.after))


class _Input:
    """The rows of a pass that were not leased yet, and those that were."""

    def __init__(
        self, leases: Pass, pipeline: _SeededPipeline, kept: Kept, supply: Supply, wake: Callable[[], None]
    ) -> None:
        self._leases = leases
        self._pipeline = pipeline
        self._kept = kept
        self._supply = supply
        self._wake = wake
        self._producer: Producer | None = None
        self._number = 0  # of the producer's entry that is handed out now
        self._entry: Entry | None = None  # which is held
        self._row = 0  # of it, the next
        self._skipped = 0  # rows still to be skipped
        self._again: _Rereader | None = None
        self.readers = 0

    def peek(self, rows: int) -> Entry | None:
        """What follows: at most so many rows of a block, an error, or the end. None while it is not there."""
        entry = self._current()
        if entry is None or entry.segment is None:
            if entry is not None and entry.after is None:
                self._stop()  # who asks next tries again
            elif entry is not None and not entry.is_last:
                return replace(entry, after=_cursor_state(entry.after, 0))
            return entry
        end = min(self._row + rows, entry.rows)
        is_whole = end == entry.rows and entry.after is not None
        after = _cursor_state(entry.after, 0) if is_whole else _cursor_state(entry.before, end)
        return replace(entry, begin=self._row, rows=end - self._row, after=after)

    def take(self, piece: Entry) -> Entry:
        """The piece that was peeked at, with its segment held for the caller."""
        if piece.segment is None:
            self._number, self._entry = self._number + 1, None
        else:
            self._row += piece.rows
            self._supply.hold(piece.segment)
        return piece

    def _current(self) -> Entry | None:
        if self._producer is None:
            before, self._skipped, _ = self._leases.input
            self._kept.producers += 1
            most = self._kept.window_bytes
            self._producer = Producer(self._pipeline.open, json.dumps(before), self._supply, most, self._wake)
            self._number = 0
        while True:
            if self._entry is None:
                self._entry, self._row = self._producer.entry(self._number), 0
            entry = self._entry
            if entry is None:
                return None
            if entry.segment is None:
                if self._skipped and entry.after is not None:
                    return Entry("", None, error=pickled(_changed(self._skipped)))
                return entry
            skipped = min(self._skipped, entry.rows - self._row)
            self._row, self._skipped = self._row + skipped, self._skipped - skipped
            if self._row < entry.rows:
                return entry
            self._supply.release(entry.segment)
            self._number, self._entry = self._number + 1, None

    def read_again(self, feed: SplitFeed, lease: Lease) -> Entry | None:
        """What a lease holds; None while it is being read."""
        before, skipped, _ = lease.state
        number = None if self._producer is None else self._producer.find(json.dumps(before))
        if number is not None and self._producer is not None:
            with suppress(LookupError):  # it left the window just now
                entry = self._producer.entry(number)
                if entry is not None and entry.segment is None and not lease.rows and not entry.is_last:
                    return entry
                if entry is not None and entry.segment is not None:
                    if lease.rows and skipped + lease.rows <= entry.rows:
                        return replace(entry, begin=skipped, rows=lease.rows)
                    self._supply.release(entry.segment)
        if self._again is None:
            self._again = _Rereader(self._pipeline, self._supply, self._wake)
        return self._again.get(feed, lease)

    def forget(self, feed: SplitFeed) -> None:
        if self._again is not None:
            self._again.forget(feed)

    def _stop(self) -> None:
        if self._entry is not None and self._entry.segment is not None:
            self._supply.release(self._entry.segment)
        self._entry = None
        if self._producer is not None:
            self._producer.stop()
            self._producer = None
            self._kept.producers -= 1

    def close(self) -> None:
        self._stop()
        if self._again is not None:
            self._again.close()


def _cursor_state(state: str | None, rows: int) -> str:
    assert state is not None
    return json.dumps([json.loads(state), rows, 0])


class _Rereader:
    """A thread that reads leases again. Clients wait for it, while others go on."""

    def __init__(self, pipeline: _SeededPipeline, supply: Supply, wake: Callable[[], None]) -> None:
        self._pipeline = pipeline
        self._supply = supply
        self._wake = wake
        self._wanted: dict[SplitFeed, Lease] = {}  # one for each, the oldest first
        self._found: dict[SplitFeed, tuple[Lease, Entry]] = {}
        self._is_stopped = False
        self._changed = threading.Condition()
        self._cursor: Cursor | None = None
        self._at = 0  # the number of the element in front of which it is
        threading.Thread(target=self._run, name="feedline-rereader", daemon=True).start()

    def get(self, feed: SplitFeed, lease: Lease) -> Entry | None:
        with self._changed:
            found = self._found.pop(feed, None)
            if found is not None and found[0] == lease:
                return found[1]
            if found is not None:
                self._release(found[1])
            if self._wanted.get(feed) != lease:
                self._wanted[feed] = lease
                self._changed.notify_all()
        return None

    def forget(self, feed: SplitFeed) -> None:
        with self._changed:
            self._wanted.pop(feed, None)
            if feed in self._found:
                self._release(self._found.pop(feed)[1])

    def close(self) -> None:
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()

    def _release(self, entry: Entry) -> None:
        if entry.segment is not None:
            self._supply.release(entry.segment)

    def _run(self) -> None:
        with suppress(Stopped), stoppable(lambda: self._is_stopped):
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._is_stopped or self._wanted)
                    if self._is_stopped:
                        break
                    feed, lease = next(iter(self._wanted.items()))
                entry = self._read(lease)
                with self._changed:
                    if self._wanted.get(feed) == lease:
                        del self._wanted[feed]
                        self._found[feed] = lease, entry
                    else:
                        self._release(entry)
                self._wake()
        self._leave()

    def _read(self, lease: Lease) -> Entry:
        try:
            return self._entry(lease)
        except Stopped:
            raise
        except BaseException as error:  # the client is told, and may ask again
            self._leave()
            return Entry("", None, error=pickled(error))

    def _entry(self, lease: Lease) -> Entry:
        if self._cursor is None or self._at != lease.first:
            self._leave()
            self._cursor = self._pipeline.cursor(lease.state)
        self._at = lease.first + lease.elements
        if lease.rows:
            parts = self._cursor.collect(lease.rows)
            if sum(part.rows for part in parts) != lease.rows:
                raise _changed(lease.rows)
            return Entry.of("", "", Block.concat(parts), self._supply)
        try:
            self._cursor.take(1)
        except Exception as error:
            return Entry("", "", error=pickled(error))
        raise _changed(1)

    def _leave(self) -> None:
        cursor, self._cursor = self._cursor, None
        if cursor is not None:
            with suppress(Exception):
                cursor.close()


def _changed(rows: int) -> NotRepeatable:
    return NotRepeatable(
        f"distribute: the pipeline gives other elements than before: {rows:,} cannot be found again.\n"
        "  Its files were changed, or its source does not repeat itself."
    )

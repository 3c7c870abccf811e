"""A Producer: one stream, run by a thread a little ahead of its fastest reader, and its last blocks.

    first ........... wanted ........... end
    read by someone   ahead of everyone

Each block is a frame in a segment, with the states before and after it. The oldest leave when there are too
many, whether or not a slow reader has had them: so memory is bounded, and nobody waits for anybody.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from feedline import frame
from feedline.block import Block
from feedline.errors import WorkerError
from feedline.graph import Stream
from feedline.graph.waiting import Stopped, stoppable
from feedline.run.memory import Segment, Supply
from feedline.run.worker import pickled_error

_MOST_BLOCKS = 1024
AHEAD = 16
"""Blocks that are made before anybody asks for them."""

_ROWS = 1 << 14  # asked for at once


@dataclass(frozen=True)
class Entry:
    """A block in a segment, an error in the place of its element, or (with neither) the end."""

    before: str  # a state, as JSON
    after: str | None  # None: the stream could not be opened
    rows: int = 0
    segment: Segment | None = None
    size: int = 0
    error: bytes | None = None
    begin: int = 0  # the first row of the block that counts; `rows` follow

    @classmethod
    def of(cls, before: str, after: str, block: Block, supply: Supply) -> Entry:
        """The block in a segment of the supply, which is held."""
        plan = frame.Plan.of(block)
        segment = supply.take(plan.size)
        try:
            plan.write(segment.memory)
        except BaseException:
            supply.release(segment)
            raise
        return cls(before, after, block.rows, segment, plan.size)

    @property
    def is_last(self) -> bool:
        return self.segment is None and (self.error is None or self.after is None)


class Producer:
    """The main thread of a host reads; only `_run` is the producer's own."""

    def __init__(
        self,
        start: Callable[[str], Stream],
        state: str,
        supply: Supply,
        most_bytes: Callable[[], int],
        wake: Callable[[], None],
        ahead: int = AHEAD,
    ) -> None:
        """`ahead` blocks at most are made that nobody has asked for."""
        self._start = start
        self._supply = supply
        self._most_bytes = most_bytes
        self._wake = wake
        self._ahead = ahead
        self._state = state
        self._entries: deque[Entry] = deque()
        self.first = 0  # the number of the oldest entry
        self._numbers = {state: 0}  # of the entries by the states before them; one is still to come
        self._bytes = 0
        self._wanted = 0  # the number that the fastest reader needs next
        self._has_ended = False
        self._is_stopped = False
        self._changed = threading.Condition()
        self.readers = 0
        threading.Thread(target=self._run, name="feedline-producer", daemon=True).start()

    def find(self, state: str) -> int | None:
        """The number of the entry that follows a state; None if it is not kept."""
        with self._changed:
            return self._numbers.get(state)

    def entry(self, number: int) -> Entry | None:
        """None while it is not made. Its segment is held for the caller. LookupError if it is gone."""
        with self._changed:
            if number < self.first:
                raise LookupError
            if number > self._wanted:
                self._wanted = number
                self._changed.notify_all()
            at = number - self.first
            if at >= len(self._entries):
                return None
            entry = self._entries[at]
            if entry.segment is not None:
                self._supply.hold(entry.segment)
            return entry

    def stop(self) -> None:
        with self._changed:
            self._is_stopped = True
            while self._entries:
                self._drop_oldest()
            self._changed.notify_all()

    def _run(self) -> None:
        stream = None
        try:
            with stoppable(lambda: self._is_stopped):
                stream = self._start(self._state)
                while not self._has_ended and self._room():
                    self._put(self._next(stream))
        except Stopped:
            pass
        except BaseException as error:  # it cannot be opened, or does not know its state: nothing can follow
            self._put(Entry(self._state, None, error=pickled(error)))
        finally:
            if stream is not None:
                with suppress(Exception):  # nobody is there to hear of it
                    stream.close()

    def _next(self, stream: Stream) -> Entry:
        before = self._state
        block: Block | None = None
        error: BaseException | None = None
        try:
            block = stream.next(_ROWS)
        except Stopped:
            raise
        except BaseException as failed:
            error = failed
        self._state = json.dumps(stream.state())
        if block is not None:
            try:
                return Entry.of(before, self._state, block, self._supply)
            except Exception as unfit:  # what was returned can only be used where it was made
                error = unfit
        return Entry(before, self._state, error=None if error is None else pickled(error))

    def _room(self) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._is_stopped or self._has_room())
            return not self._is_stopped

    def _has_room(self) -> bool:
        made = self.first + len(self._entries) - self._wanted
        if made <= min(1, self._ahead):  # one that is taken, and one that is made
            return True
        held = sum(self._entries[-at].size for at in range(1, made + 1))
        return made <= self._ahead and held < self._most_bytes() // 2

    def _put(self, entry: Entry) -> None:
        with self._changed:
            if self._is_stopped:
                if entry.segment is not None:
                    self._supply.release(entry.segment)
                return
            self._entries.append(entry)
            self._bytes += entry.size
            self._has_ended = entry.is_last
            if not entry.is_last:
                assert entry.after is not None
                self._numbers.setdefault(entry.after, self.first + len(self._entries))
            while self.first < self._wanted and self._is_too_much():
                self._drop_oldest()
        self._wake()

    def _is_too_much(self) -> bool:
        return len(self._entries) > _MOST_BLOCKS or self._bytes > self._most_bytes()

    def _drop_oldest(self) -> None:
        entry = self._entries.popleft()
        self._bytes -= entry.size
        if self._numbers.get(entry.before) == self.first:
            del self._numbers[entry.before]
        self.first += 1
        if entry.segment is not None:
            self._supply.release(entry.segment)


def pickled(error: BaseException) -> bytes:
    if not isinstance(error, Exception):
        error = WorkerError(f"the function wanted to end the process, by {error!r}.")
    return pickled_error(error, "in the reader service")

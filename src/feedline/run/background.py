"""A stream that a thread of its own runs ahead.

Each block comes with the state after it, so the state of what was handed out is exact however far the thread
is ahead. An error of the stream arrives in its place among the rows.

How far ahead it should run, where nobody says, is learned: twice as far whenever the consumer had to wait
though the thread had been as far ahead as it might.

Under a memory limit, one block may wait at any time; others only while there is room for them.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections import deque
from collections.abc import Callable

from feedline.block import Block
from feedline.errors import UsageError
from feedline.graph import Context, State, Stream
from feedline.graph.memory import Account
from feedline.graph.waiting import Stopped, stoppable

_FIRST_BYTES = 4 << 20  # ahead, to begin with
_MOST_BYTES = 256 << 20  # ahead, where nobody says how far


class Background(Stream):
    def __init__(
        self,
        start: Callable[[State], Stream],
        state: State,
        context: Context,
        rows: int | None,
        account: Account | None = None,
    ) -> None:
        self._state = state
        self._ended = False
        self.account: Account = account or context.budget.account("prefetch")
        self._feed = _Feed(start, state, context, rows, self.account)
        # The thread knows only the feed: when this stream is dropped without close(), it ends all the same.
        self._thread = self._feed.thread
        self._thread.start()

    def next(self, limit: int) -> Block | None:
        if self._ended:
            return None
        began = time.perf_counter()
        item = self._feed.take()
        self.waited += time.perf_counter() - began
        self.ahead = max(self.ahead, self._feed.most_held)
        self._state = item.after
        if item.error is not None:
            raise item.error
        self._ended = item.block is None
        return item.block

    def state(self) -> State:
        return self._state

    def close(self) -> None:
        self._feed.stop()
        if self._thread is not threading.current_thread():
            self._thread.join()
        self._ended = True

    def __del__(self) -> None:
        if hasattr(self, "_feed"):
            self._feed.stop()


class _Item:
    def __init__(self, block: Block | None, error: BaseException | None, after: State) -> None:
        self.block = block
        self.error = error
        self.after = after
        self.rows = 1 if block is None else block.rows
        self.bytes = 0 if block is None else block.nbytes


class _Feed:
    """What the thread and its consumer share."""

    def __init__(
        self,
        start: Callable[[State], Stream],
        state: State,
        context: Context,
        rows: int | None,
        account: Account,
    ) -> None:
        self._start = start
        self._state = state
        self._account = account
        self._rows = 2 * context.block_rows if rows is None else rows
        self._bytes_ahead: float = _FIRST_BYTES if rows is None else float("inf")
        self._was_full = False
        self.most_held = 0  # bytes
        self._items: deque[_Item] = deque()
        self._held = 0  # rows in _items, an error counting as one
        self._bytes = 0  # of those
        self._stopped = False
        self._changed = threading.Condition()
        self.thread = threading.Thread(target=self._run, name="feedline-prefetch", daemon=True)

    def _run(self) -> None:
        stream = None
        _running.add(self)
        try:
            with stoppable(lambda: self._stopped):
                stream = self._start(self._state)
                self._read(stream)
        except Stopped:
            pass
        except BaseException as error:
            # Opening failed, or the state did: there is nothing to go on with.
            self._put(_Item(None, error, self._state))
            self._put(_Item(None, None, self._state))
        finally:
            if stream is not None:
                stream.close()
            _running.discard(self)

    def _read(self, stream: Stream) -> None:
        while self._room():
            try:
                block = stream.next(max(1, self._rows // 2))
                if block is not None:
                    _ = block.columns  # rows that were only picked are copied here, not by the consumer
                item = _Item(block, None, stream.state())
            except Exception as error:
                item = _Item(None, error, stream.state())
            self._put(item)
            if item.block is None and item.error is None:
                return

    def _room(self) -> bool:
        with self._changed:
            self._was_full = self._was_full or not self._has_room()
            self._changed.wait_for(lambda: self._stopped or self._has_room())
            return not self._stopped

    def _has_room(self) -> bool:
        if self._held >= self._rows:
            return False
        if self._account.is_limited and self._items and not self._account.may_hold(self._items[-1].bytes):
            return False
        # Less than two would be no buffer.
        return len(self._items) < 2 or self._bytes < self._bytes_ahead

    def _put(self, item: _Item) -> None:
        with self._changed:
            self._items.append(item)
            self._held += item.rows
            self._bytes += item.bytes
            self.most_held = max(self.most_held, self._bytes)
            self._account.hold(self._bytes)
            self._changed.notify_all()

    def take(self) -> _Item:
        with self._changed:
            if not self._items and self._was_full:
                self._bytes_ahead = min(2 * self._bytes_ahead, _MOST_BYTES)
                self._was_full = False
            self._changed.wait_for(lambda: self._items or self._stopped)
            if self._stopped:
                if _is_ending and threading.current_thread() is not threading.main_thread():
                    raise SystemExit  # ends a daemon thread without a traceback
                raise UsageError("this iterator was closed while another thread read from it.")
            item = self._items.popleft()
            self._held -= item.rows
            self._bytes -= item.bytes
            self._account.hold(self._bytes)
            self._changed.notify_all()
            return item

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._items.clear()
            self._account.close()
            self._changed.notify_all()


_running: set[_Feed] = set()
_is_ending = False  # the program
_GRACE = 10.0  # seconds, for a user's function that is at work when the program ends


@atexit.register
def _end_all() -> None:
    """A thread that still runs when the interpreter goes is killed within native code, and that aborts."""
    global _is_ending
    _is_ending = True
    until = time.monotonic() + _GRACE
    feeds = tuple(_running)
    for feed in feeds:
        feed.stop()
    for feed in feeds:
        feed.thread.join(max(0.0, until - time.monotonic()))

"""shuffle: elements drawn at random from a buffer that the next ones refill, as in tf.data.

The buffer holds references: a number for each row, and the blocks that the rows lie in. What is drawn is
copied once, when it is looked at. The row that takes the place of one that was drawn need not be there before
the next draw: until then there is a hole, which holds its number.

The state is small: how many were drawn, and the state of the input at the oldest row that may still be in the
buffer. A restored stream goes through the draws again, with numbers only, and then reads the rows it needs.
What fails again among the elements that it reads was raised before, and is passed over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from feedline import _native
from feedline.block import Block, Sources
from feedline.column import empty
from feedline.errors import UsageError
from feedline.graph import INFINITE, UNKNOWN, Context, Cursor, Indices, Node, Peek, RandomNode, State, Stream
from feedline.graph.arguments import check_bool, check_int
from feedline.graph.memory import Account
from feedline.picker import Picks, sources_in
from feedline.spec import STRING, ArraySpec
from feedline.structure import flatten

_NO_END = 2**62
_HELD = 3  # times the rows in the buffer: what a store may hold, because rows wait in the blocks they came in
_SPARE = 1  # blocks' worth of rows that it may hold beside those
# Under a memory limit, fewer. Old blocks are copied together sooner then, and for a moment both are held: so
# a buffer needs up to twice its rows.
_HELD_LIMITED, _NEEDED = 1.5, 2
_REMEDY = (
    "Use a smaller buffer_size, or raise the limit. Where the dataset is indexed, shuffle() without a "
    "buffer_size needs next to no memory."
)
_REPLAYED = 1 << 20  # draws that are gone through at a time


@dataclass(frozen=True, eq=False)
class Shuffle(RandomNode):
    input: Node
    buffer_size: int
    reshuffle_each_iteration: bool

    def __post_init__(self) -> None:
        rule = "the buffer must hold 1 element at least; None shuffles all of an indexed dataset."
        if self.buffer_size != UNKNOWN:
            check_int(self, "buffer_size", 1, rule)
        check_bool(self, "reshuffle_each_iteration")
        super().__post_init__()

    @property
    def size(self) -> int:
        """Of the buffer. All, where the user gave a cardinality that is unknown."""
        return _NO_END if self.buffer_size == UNKNOWN else self.buffer_size

    def cardinality(self) -> int:
        return self.input.cardinality()

    def spec(self, peek: Peek | None) -> Any:
        return self.input.spec(peek)

    def open(self, context: Context, state: State) -> Stream:
        return _ShuffleStream(self, context, state)


class _ShuffleStream(Stream):
    def __init__(self, node: Shuffle, context: Context, state: State) -> None:
        self._node = node
        self._context = context
        self._ahead = min(context.block_rows, node.size // 2)
        self._slots: Indices = np.empty(0, np.int64)  # places in the store; the first _filled are in use
        self._filled = 0
        self._drains = False  # `_slots` are picks
        self._ready: Block | None = None  # was drawn, and is to be given next
        self._error: Exception | None = None  # of the input, when all rows in front of it were drawn
        if state is None:
            key = node.key_in(context, each_iteration=node.reshuffle_each_iteration)
            state = [key, 0, None, 0, None, 0]
        # `_end`: the number of rows of the input, once it ended. `_raised`: how many of the errors that the
        # input will raise again were raised before the state was taken.
        self._key, self._draws, self._end, oldest, input_state, self._raised = state
        self._rows = Cursor(replace(context, rows_are_picked=True), node.input, input_state)
        self._store = _Store(oldest, self._rows.state())  # not None: a stream may know where it begins
        self._begun = self._draws > 0
        # The number of elements of the input, as far as it is known, and whether all are of one size.
        self._facts: tuple[int, bool] | None = None
        what = "its buffer" if node.size == _NO_END else f"its buffer of {node.size:,} elements"
        self.account: Account = context.budget.account(node, what, _REMEDY)
        if self._begun:
            self._restore()

    def next(self, limit: int) -> Block | None:
        block = self._draw(limit) if self._ready is None else self._ready
        self._ready = None
        if block is not None and block.rows > limit:
            block, self._ready = block.slice(0, limit), block.slice(limit, block.rows)
        if self._end is not None and self._ready is None and not self._context.rows_are_picked:
            # Nothing is read any more: while the next step is busy with these rows, others are copied.
            self._ready = self._draw(min(limit, self._context.rows_of(self._store.row_bytes)))
            if self._ready is not None:
                self._ready.begin()
        return block

    def _draw(self, limit: int) -> Block | None:
        if not self._begun:
            self._fill()
        store = self._store
        rows = min(limit, self._context.rows_to_pick(store.row_bytes))
        if store.end < store.next + rows - 1:
            # Rows that are read one by one would each be a block. Beside the buffer, a few more are nothing.
            ahead = self._ahead
            if self.account.is_limited:
                ahead = min(ahead, self._context.rows_of(store.row_bytes))
            self._read(store.next - 1 + max(rows, ahead), self._context.services.deadline())
        end = store.end
        if self._end is None:
            end += 1  # there may be a hole after the last draw
            rows = min(rows, end - store.next)
        if rows == 0:
            self._raise()
        if self._end is not None and store.next == end and not self._drains:
            self._drain()
        buffer = (self._key, self._draws, self._slots, self._filled, store.next, end, rows)
        if self._drains:
            picks, self._filled, _ = _native.draw(*buffer)
        else:
            picks, self._filled, store.next = _native.draw_values(*buffer, store.picks)
        if len(picks) == 0:
            return None
        self._draws += len(picks)
        block = store.block(picks)
        spare = _SPARE * self._context.rows_of(store.row_bytes)
        most = _HELD_LIMITED if self.account.is_limited else _HELD
        if self._end is None and store.next > most * self._filled + spare:
            before = store.bytes
            store.compact(self._slots[: self._filled], store.next // 2)
            self._hold(before)
        return block

    def _hold(self, meanwhile: int = 0) -> None:
        """Tell what the store holds, and what the buffer needs when it is full."""
        store, rows = self._store, self._node.size
        if not self.account.is_limited:
            return self.account.hold(store.bytes)
        if self._facts is None:
            of_input = self._node.input
            self._facts = of_input.cardinality(), _has_fixed_size(of_input.spec(None))
        known, is_exact = self._facts
        goes_on = known == INFINITE or known > rows
        if known >= 0:
            rows = min(rows, known)
        times = _NEEDED if goes_on or (self._begun and self._end is None) else 1
        row_bytes = store.bytes / max(1, store.end)
        need = round(times * row_bytes * min(rows, store.end))
        if rows < _NO_END and (is_exact or not self.account.has_room(need)):
            need = round(times * row_bytes * rows)  # when it is full
        if meanwhile:
            self.account.hold(meanwhile + store.copied_bytes, need)
        self.account.hold(store.bytes, need)

    def _fill(self) -> None:
        size = self._node.size
        self._read(size)
        if self._error is not None:
            self._raise()
        self._slots = np.arange(min(size, self._store.end), dtype=np.int64)
        self._filled = self._store.next = len(self._slots)
        self._begun = True

    def _drain(self) -> None:
        """All rows are in the buffer, and no more will come: its slots tell no places any more, but picks."""
        picks = self._store.picks
        self._slots = picks[self._slots[: self._filled]] if self._draws else picks
        self._drains = True

    def _raise(self) -> None:
        assert self._error is not None
        error, self._error = self._error, None
        self._store.failures += 1
        raise error

    def _read(self, places: int, late: Callable[[], bool] | None = None) -> None:
        """Read until the store has so many places, or the input ends or fails.

        When it is `late`, one that can be drawn is enough.
        """
        while self._end is None and self._error is None and self._store.end < places:
            if late is not None and self._store.end >= self._store.next and late():
                return  # a slow function must not keep rows back that can be drawn
            try:
                block = self._take(places - self._store.end)
            except Exception as error:
                self._error = error
                return
            if block is not None:
                self._store.add(block)
                self._hold()
            else:
                self._end = self._store.rows_seen
                self._close_hole()

    def _close_hole(self) -> None:
        """No row came for the last place that was drawn from: the buffer shrinks, as it does at the end."""
        store = self._store
        if store.next > store.end:
            hole = np.flatnonzero(self._slots[: self._filled] == store.end)
            self._filled -= 1
            self._slots[hole] = self._slots[self._filled]
            store.next = store.end

    def _take(self, rows: int) -> Block | None:
        while True:
            self._store.mark(self._rows.state())
            try:
                return self._rows.take(min(rows, self._context.block_rows))
            except Exception:
                if not self._raised:
                    raise
                self._raised -= 1
                self._store.failures += 1

    def _restore(self) -> None:
        """Bring the buffer to where it was after `_draws` draws."""
        end = _NO_END if self._end is None else self._end
        self._slots = np.arange(min(self._node.size, end), dtype=np.int64)
        filled, row = len(self._slots), len(self._slots)
        for done in range(0, self._draws, _REPLAYED):
            count = min(_REPLAYED, self._draws - done)
            _, filled, row = _native.draw(self._key, done, self._slots, filled, row, end, count)
        self._filled = filled
        if self._end is not None and row < self._end:
            self._end = None  # it was seen ahead of time: the rows in front of it are to be read again
        if self._end is None:
            row -= 1  # it is the hole
        needed = np.sort(self._slots[:filled])
        self._store.kept = needed = needed[needed < row]
        while (seen := self._store.rows_seen) < row:
            block = self._take(row - seen)
            if block is None:
                raise UsageError(f"{self._node}: the input has fewer elements than when the state was taken.")
            first, last = np.searchsorted(needed, (seen, seen + block.rows))
            self._store.add_some(block, needed[first:last] - seen)
            self._hold()
        self._slots[:filled] = np.searchsorted(needed, self._slots[:filled])
        self._store.next = filled

    def state(self) -> State:
        oldest, input_state, failures = self._store.oldest()
        given = self._draws - (self._ready.rows if self._ready is not None else 0)
        return [self._key, given, self._end, oldest, input_state, failures + self._raised]

    def close(self) -> None:
        self._rows.close()
        self._ready = None
        self._store = _Store(0, None)


def _has_fixed_size(spec: Any) -> bool:
    """Have all elements that it describes as many bytes?"""
    leaves = [] if spec is None else flatten(spec)[0]
    return bool(leaves) and all(
        isinstance(leaf, ArraySpec)
        and leaf.dtype != STRING
        and leaf.shape is not None
        and None not in leaf.shape
        for leaf in leaves
    )


class _Store:
    """The rows that were read, each at a place, in the order in which they came.

    Blocks stay as long as a row of theirs may be drawn. When nearly all that the older ones hold was drawn,
    the rest is copied together, and they are let go.
    """

    def __init__(self, first_row: int, input_state: State) -> None:
        self.end = 0  # the number of places
        self.next = 0  # the first place whose row is not yet in the buffer
        self.rows_seen = first_row  # of the input
        self.failures = 0  # errors that the input raised on the way
        self.row_bytes = 0
        self._sources = Sources()
        self._source_bytes = self._counted = 0  # of how many sources
        self.copied_bytes = 0  # when old blocks were last copied together
        self._picks: Picks = np.empty(0, np.int64)  # of each place; there is room for more
        self.kept: Indices = np.empty(0, np.int64)  # the row numbers of the first places; the others follow
        self._marks: deque[tuple[int, State, int]] = deque()  # `rows_seen`, the input's state and `failures`
        self.mark(input_state)

    def mark(self, input_state: State) -> None:
        """Remember where the input is: it may have to be read again from here."""
        self._marks.append((self.rows_seen, input_state, self.failures))

    def add(self, block: Block) -> None:
        self.rows_seen += block.rows
        self.row_bytes = max(1, block.nbytes // block.rows)
        self._append(block)

    def add_some(self, block: Block, rows: Indices) -> None:
        """Only some rows of a block, which are among `kept`. The block itself is let go."""
        self.rows_seen += block.rows
        self.row_bytes = max(1, block.nbytes // block.rows)
        if len(rows):
            self._append(block.take(rows).copied())

    def _append(self, block: Block) -> None:
        end = self.end + block.rows
        if end > len(self._picks):
            larger = empty((max(end, 2 * len(self._picks)),), self._picks.dtype)
            larger[: self.end] = self._picks[: self.end]
            self._picks = larger
        self._sources.add(block, self._picks[self.end : end])
        self.end = end

    @property
    def bytes(self) -> int:
        """Of all blocks that rows are picked out of, and of the picks."""
        sources = self._sources.sources
        self._source_bytes += sum(source.nbytes for source in sources[self._counted :])
        self._counted = len(sources)
        return self._source_bytes + self._picks.nbytes

    @property
    def picks(self) -> Picks:
        """Of each place."""
        return self._picks[: self.end]

    def block(self, picks: Picks) -> Block:
        return self._sources.pick(picks)

    def oldest(self) -> tuple[int, State, int]:
        """A row from which on the input may have to be read again, its state there, and the errors since."""
        row, input_state, failures = self._marks[0]
        return row, input_state, self.failures - failures

    def compact(self, slots: Indices, before: int) -> None:
        """Copy what `slots` still needs of the places `before`, so that their blocks can go.

        Places are counted anew, in `slots` too.
        """
        is_old = slots < before
        old = np.sort(slots[is_old])
        numbers = self._row_numbers(old)
        oldest = numbers[0] if len(old) else self._row_numbers(np.array([before]))[0]
        while len(self._marks) > 1 and self._marks[1][0] <= oldest:
            self._marks.popleft()

        copied = self.block(self._picks[old]).copied() if len(old) else None
        picks = self._picks[before : self.end]
        is_needed = np.bincount(sources_in(picks)) > 0
        self._sources = self._sources.only(np.flatnonzero(is_needed))
        shift = len(old) - before
        self._picks[len(old) : self.end + shift] = _native.renumber(picks, np.cumsum(is_needed) - 1)
        self._source_bytes = self._counted = self.copied_bytes = 0
        if copied is not None:
            self._sources.add(copied, self._picks[: len(old)])
            self.copied_bytes = copied.nbytes

        slots[is_old] = np.searchsorted(old, slots[is_old])
        slots[~is_old] += shift
        self.next += shift
        self.end += shift
        self.kept = np.concatenate([numbers, self.kept[before:]])

    def _row_numbers(self, places: Indices) -> Indices:
        """Which row of the input each place has."""
        numbers = places + (self.rows_seen - self.end)
        known = places < len(self.kept)
        numbers[known] = self.kept[places[known]]
        return numbers

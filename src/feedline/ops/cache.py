"""cache: elements kept in memory, so that later iterations need not compute them again.

An iteration that comes to the end keeps what it gave; those that start afterwards read that. One that starts
before computes for itself: it never mixes its own rows with those of another, which would be wrong where a
function is random. By index, each element is kept when it is first asked for.

What is cached is the first iteration, whichever iteration computes it: steps before that are random by epoch
always run as in the first. A state is the number of elements, and the state in which the steps before began,
from which a process that has no cache runs them again.
"""

from __future__ import annotations

import json
import threading
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from feedline.block import Block, Sources
from feedline.errors import UsageError
from feedline.graph import Context, Cursor, Indices, Node, Peek, State, Stream, drawing_nodes
from feedline.graph.context import FIRST_EPOCH
from feedline.graph.memory import Account
from feedline.picker import Picks, picks_of

_REMEDY = "Raise the limit, or cache(directory): what is kept in files does not count."


class _Memory:
    """The cache of one node in this process. It does not travel."""

    def __init__(self) -> None:
        self.kept: _Sequence | _Table | None = None  # all elements
        self.table: _Table | None = None  # what was asked for by index
        self.lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return _Memory, ()


@dataclass(frozen=True, eq=False)
class Cache(Node):
    input: Node
    memory: _Memory = field(default_factory=_Memory, init=False, compare=False, repr=False)

    keeps_draws = True

    def length(self) -> int | None:
        return self.input.length()

    def cardinality(self) -> int:
        return self.input.cardinality()

    def spec(self, peek: Peek | None) -> Any:
        return self.input.spec(peek)

    def gather(self, indices: Indices, context: Context) -> Block:
        context, seeds, memory = context.at_epoch(FIRST_EPOCH), self._seeds(context), self.memory
        with memory.lock:
            if memory.kept is None and memory.table is None:
                memory.table = _Table(self.length() or 0, seeds)
            kept, table = memory.kept, memory.table
        known = kept or table
        assert known is not None
        if len(indices) == 0 or known.seeds != seeds:
            return context.gather(self.input, indices)
        if kept is not None:
            return kept.gather(indices)
        assert table is not None
        with memory.lock:
            missing = table.missing(indices)
        # Without the lock: other threads may be at work, too. What two of them computed is kept once.
        block = context.gather(self.input, missing).frozen() if len(missing) else None
        with memory.lock:
            if block is not None and not table.is_full:  # once it is full, it is read without the lock
                table.add(missing, block)
                self.account_in(context).check(table.bytes)
            if table.is_full and memory.kept is None:
                table.beginning = self._beginning(context)
                memory.kept = table
            return table.gather(indices)

    def account_in(self, context: Context) -> Account:
        """For the elements that are kept. They count against the limit of every iteration that uses them."""
        return context.budget.account(self, "what it keeps", _REMEDY)

    def _seeds(self, context: Context) -> list[int]:
        """Of the random steps before: an iteration that was begun elsewhere has other ones."""
        return [node.seed_in(context) for node in drawing_nodes(self.input)]

    def _beginning(self, context: Context) -> State:
        rows = Cursor(context, self.input)
        try:
            return _as_json(rows.state())
        finally:
            rows.close()

    def open(self, context: Context, state: State) -> Stream:
        context, seeds = context.at_epoch(FIRST_EPOCH), self._seeds(context)
        at, beginning = state or (0, None)
        kept = self.memory.kept
        if kept is not None and kept.seeds == seeds and beginning in (None, kept.beginning):
            return _KeptStream(self, kept, context, at)
        return _FillStream(self, context, at, beginning, seeds)


class _KeptStream(Stream):
    def __init__(self, node: Cache, kept: _Sequence | _Table, context: Context, at: int) -> None:
        self._kept = kept
        self.account: Account = node.account_in(context)
        self.account.hold(kept.bytes, kept.bytes)
        self._rows = context.block_rows
        self._at = at

    def next(self, limit: int) -> Block | None:
        block = self._kept.read(self._at, min(limit, self._rows))
        if block is not None:
            self._at += block.rows
        return block

    def state(self) -> State:
        return [self._at, self._kept.beginning]


class _FillStream(Stream):
    """Computes the elements, and keeps them."""

    def __init__(self, node: Cache, context: Context, at: int, beginning: State, seeds: list[int]) -> None:
        self._node = node
        self._memory = node.memory
        self._all = node.input.cardinality()
        self._rows = Cursor(context, node.input, beginning)
        self._beginning = _as_json(self._rows.state())
        self._passed = 0  # elements that were given or raised
        self._given_before = at
        self._filling: _Sequence | None = _Sequence(context, self._beginning, seeds)
        self.account: Account = node.account_in(context)

    def next(self, limit: int) -> Block | None:
        while (left := self._given_before - self._passed) > 0:
            try:
                block = self._read(left)
            except Exception:
                continue  # it was raised before
            if block is None:
                raise UsageError(f"{self._node}: the input has fewer elements than when the state was taken.")
        return self._read(limit)

    def _read(self, limit: int) -> Block | None:
        filling = self._filling
        try:
            block = self._rows.take(limit)
        except Exception:
            # The next iteration may do better: nothing is kept of this one.
            self._filling = None
            self._passed += 1
            raise
        if block is None:
            self._finish()
            return None
        self._passed += block.rows
        block = block.frozen()
        if filling is not None:
            filling.add(block)
            self.account.hold(filling.bytes, filling.bytes)
            if self._memory.kept is not None:
                self._filling = None  # another was quicker
            elif self._passed == self._all:
                self._finish()
        return block

    def _finish(self) -> None:
        filling, self._filling = self._filling, None
        if filling is not None:
            filling.finish()
            with self._memory.lock:
                if self._memory.kept is None:
                    self._memory.kept, self._memory.table = filling, None

    def state(self) -> State:
        return [max(self._passed, self._given_before), self._beginning]

    def close(self) -> None:
        self._filling = None
        self._rows.close()


class _Sequence:
    """Elements in their order."""

    def __init__(self, context: Context, beginning: State, seeds: list[int]) -> None:
        self.beginning, self.seeds = beginning, seeds
        self._most_rows, self._most_bytes = context.block_rows, context.block_bytes
        self._blocks: list[Block] = []
        self._ends: list[int] = []
        self._small: list[Block] = []  # joined when they are enough: one by one they would be slow to read
        self._rows = self._bytes = 0  # of _small
        self.bytes = 0  # of all
        self._bounds: Indices = np.zeros(1, np.int64)
        self._sources = Sources()

    def add(self, block: Block) -> None:
        self._small.append(block)
        self._rows += block.rows
        self._bytes += block.nbytes
        self.bytes += block.nbytes
        if self._rows >= self._most_rows or self._bytes >= self._most_bytes:
            self.flush()

    def flush(self) -> None:
        if self._small:
            self._blocks.append(Block.concat(self._small).frozen())
            self._ends.append(self._rows + (self._ends[-1] if self._ends else 0))
        self._small, self._rows, self._bytes = [], 0, 0

    def finish(self) -> None:
        """No more is added; now they may be read."""
        self.flush()
        self._bounds = np.array([0, *self._ends])
        for block in self._blocks:
            self._sources.add(block)

    def read(self, at: int, limit: int) -> Block | None:
        number = bisect_right(self._ends, at)
        if number == len(self._blocks):
            return None
        block = self._blocks[number]
        row = at - (self._ends[number] - block.rows)
        return block.slice(row, min(row + limit, block.rows))

    def gather(self, indices: Indices) -> Block:
        which = np.searchsorted(self._bounds, indices, side="right") - 1
        return self._sources.pick(picks_of(which, indices - self._bounds[which]))


class _Table:
    """Elements in the order in which they were asked for."""

    def __init__(self, length: int, seeds: list[int]) -> None:
        self.beginning: State = None  # known when it is full
        self.seeds = seeds
        self._picks: Picks = np.full(length, -1, np.int64)  # -1: not there yet
        self._sources = Sources()
        self._found = 0
        self.bytes = 0

    @property
    def is_full(self) -> bool:
        return self._found == len(self._picks)

    def missing(self, indices: Indices) -> Indices:
        absent: Indices = np.unique(indices[self._picks[indices] < 0])
        return absent

    def add(self, indices: Indices, block: Block) -> None:
        picks = self._sources.add(block)
        self.bytes += block.nbytes
        new = self._picks[indices] < 0
        self._picks[indices[new]] = picks[new]
        self._found += int(new.sum())

    def gather(self, indices: Indices) -> Block:
        picked = self._sources.pick(self._picks[indices])
        # Copied now: while more is added, nothing can be picked.
        return Block._trusted(picked.structure, picked.columns, picked.rows)

    def read(self, at: int, limit: int) -> Block | None:
        end = min(at + limit, len(self._picks))
        return self.gather(np.arange(at, end)) if at < end else None


def _as_json(state: State) -> State:
    """As it comes back from a file, so that the two can be compared."""
    return json.loads(json.dumps(state))

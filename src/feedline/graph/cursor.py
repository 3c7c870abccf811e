"""A Cursor: reads a node's rows in any number, and knows the state after each.

A stream only knows its state between blocks. The cursor adds to the state before the current block the number
of its rows that were passed; a restored one reads that block again and drops them.

An element that fails counts as passed once `peek` has raised. A step that still has rows to give in front of
the error sets `held`: then the state is that in front of the element, until `release`. An interrupt (Ctrl-C)
sets it for good: what the steps were at may be lost, so the rows must be read anew, from `state`.

At its end the stream is closed, so that a generator's `finally` runs then, and files, threads and workers are
free while the iterator is still held.
"""

from __future__ import annotations

from feedline.block import Block
from feedline.graph.context import Context
from feedline.graph.memory import Account
from feedline.graph.node import Node
from feedline.graph.stream import State


def moved(state: State, rows: int) -> State:
    """The state of a cursor after so many rows more."""
    before, drop, passed = state
    return [before, drop + rows, passed + rows]


class Cursor:
    def __init__(self, context: Context, node: Node, state: State = None) -> None:
        self._before: State
        self._drop: int
        self.passed: int
        self._before, self._drop, self.passed = state or (None, 0, 0)
        self.held = False
        self.node = node
        self._stream = context.open(node, self._before)
        self._block: Block | None = None
        self._row = 0  # of _block, the next
        self._has_ended = False
        self._end: State = None  # the state of the stream there

    def peek(self, limit: int) -> Block | None:
        """At most `limit` of the rows that follow, one at least; None at the end. Nothing is passed."""
        while self._block is None or self._row == self._block.rows:
            if self._has_ended:
                return None
            if self._block is not None or not self._drop:
                self._before = self._stream.state()
            self._block, self._row = None, 0
            try:
                block = self._stream.next(max(limit, self._drop))
            except Exception:
                raise
            except BaseException:
                self.held = True
                raise
            if block is None:
                self._end, self._has_ended = self._stream.state(), True
                self._stream.close()
                return None
            self._block = block
            self._row = min(self._drop, block.rows)
            self._drop -= self._row
        end = min(self._row + limit, self._block.rows)
        if self._row == 0 and end == self._block.rows:
            return self._block
        return self._block.slice(self._row, end)

    def advance(self, rows: int) -> None:
        """Pass rows that were peeked at."""
        self._row += rows
        self.passed += rows

    def take(self, limit: int) -> Block | None:
        """`peek`, and pass what it gave."""
        block = self.peek(limit)
        if block is not None:
            self.advance(block.rows)
        return block

    def collect(self, rows: int, account: Account | None = None) -> list[Block]:
        """Blocks of `rows` rows in all; fewer only where the stream ends. They count in the account."""
        parts: list[Block] = []
        held = 0
        while rows and (block := self.take(rows)) is not None:
            parts.append(block)
            rows -= block.rows
            if account is not None:
                held += block.nbytes
                account.hold(held, held)
        if account is not None and len(parts) > 1:  # they will be joined
            account.hold(2 * held, 2 * held)
        return parts

    def skip(self, rows: int) -> int:
        """Pass so many rows, fewer only where the stream ends; how many there were."""
        left = rows
        while left and (block := self.take(left)) is not None:
            left -= block.rows
        return rows - left

    def release(self) -> None:
        self.held = False

    def state(self) -> State:
        if self.held:
            return [self._before, self._row + self._drop, self.passed]
        if not self._drop and (self._block is None or self._row == self._block.rows):
            return [self._end if self._has_ended else self._stream.state(), 0, self.passed]
        return [self._before, self._row + self._drop, self.passed]

    def close(self) -> None:
        self._stream.close()
        self._block = None

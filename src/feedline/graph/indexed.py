"""Reading an indexed node in order."""

from __future__ import annotations

import numpy as np

from feedline.block import Block
from feedline.graph.alike import Alike
from feedline.graph.context import Context
from feedline.graph.node import Node
from feedline.graph.stream import Indices, State, Stream
from feedline.structure import flatten

_FIRST_ROWS = 16  # of a stream's first block; the next are larger or smaller, as long as they take


class InOrder(Stream):
    """The elements of an indexed node one after another, or only their numbers, if that will do.

    All rows of a block are computed before one is seen: so blocks take neither long nor much memory.
    """

    def __init__(self, node: Node, context: Context, state: State) -> None:
        self._node = node
        self._context = context
        self._at = state or 0
        self._rows = _FIRST_ROWS
        length = node.length()
        assert length is not None
        self._length = length
        self._careful = 0  # up to here, one row at a time
        self._alike = Alike(node)

    def next(self, limit: int) -> Block | None:
        if self._context.rows_by_number:
            return self._numbers(min(limit, self._context.block_rows))
        while (begin := self._at) < self._length:
            rows = 1 if begin < self._careful else min(limit, self._rows, self._context.block_rows)
            end = min(begin + rows, self._length)
            late = self._context.services.deadline()
            try:
                block = self.gather(np.arange(begin, end, dtype=np.int64))
            except Exception:
                if end - begin > 1:
                    # One of them fails, and nobody says which: those in front of it must come first.
                    self._careful = end
                    continue
                self._at = end
                raise
            self._at = end
            if rows == self._rows:
                self._rows = max(1, rows // 2) if late() else 2 * rows
            self._rows = min(self._rows, self._context.rows_of(block.nbytes // block.rows))
            return block
        return None

    def _numbers(self, rows: int) -> Block | None:
        begin, self._at = self._at, min(self._at + rows, self._length)
        if begin == self._at:
            return None
        return Block(flatten(0)[1], [np.arange(begin, self._at, dtype=np.int64)], self._at - begin)

    def gather(self, numbers: Indices) -> Block:
        """The elements with these numbers."""
        block = self._node.gather(numbers, self._context)
        self._alike.check(block)
        return block

    def state(self) -> State:
        return self._at

"""repeat: the elements again, `count` times in all or for ever."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from feedline.block import Block
from feedline.graph import INFINITE, Context, Indices, Node, Peek, State, Stream
from feedline.graph.arguments import check_count


@dataclass(frozen=True, eq=False)
class Repeat(Node):
    """Each round is an epoch of its own to the steps before: a shuffle among them has a new order."""

    input: Node
    count: int  # -1: for ever

    passes_rows_on = True

    def __post_init__(self) -> None:
        check_count(self)

    def length(self) -> int | None:
        length = self.input.length()
        return None if length is None or self.count < 0 else length * self.count

    def cardinality(self) -> int:
        cardinality = self.input.cardinality()
        if self.count == 0 or cardinality == 0:
            return 0
        if self.count < 0 or cardinality == INFINITE:
            return INFINITE
        return cardinality if cardinality < 0 else cardinality * self.count

    def spec(self, peek: Peek | None) -> Any:
        return self.input.spec(peek)

    def gather(self, indices: Indices, context: Context) -> Block:
        length = self.input.length()
        assert length is not None
        rounds, inner = np.divmod(indices, length)
        parts = []
        order = []
        for number in np.unique(rounds).tolist():
            rows = np.flatnonzero(rounds == number)
            order.append(rows)
            parts.append(context.within(number).gather(self.input, inner[rows]))
        block = Block.concat(parts)
        return block if len(parts) == 1 else block.take(np.argsort(np.concatenate(order)))

    def open(self, context: Context, state: State) -> Stream:
        return _RepeatStream(self, context, state)


class _RepeatStream(Stream):
    def __init__(self, node: Repeat, context: Context, state: State) -> None:
        self._node = node
        self._context = context
        self._round: int
        self._any: bool  # has this round given elements?
        self._round, inner, self._any = state or (0, None, False)
        self._stream: Stream | None = None
        if self._round != node.count:
            self._stream = context.within(self._round).open(node.input, inner)

    def next(self, limit: int) -> Block | None:
        while self._stream is not None:
            block = self._stream.next(limit)
            if block is not None:
                self._any = True
                return block
            self._stream.close()
            self._stream = None
            self._round += 1
            # An input that gave nothing would be asked for ever. But `count` rounds are gone through, as in
            # tf.data: the next may give something.
            if self._round != self._node.count and (self._any or self._node.count >= 0):
                self._any = False
                self._stream = self._context.within(self._round).open(self._node.input)
        return None

    def state(self) -> State:
        if self._stream is None:
            return [self._node.count, None, False]
        return [self._round, self._stream.state(), self._any]

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()

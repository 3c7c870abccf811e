"""concatenate: the elements of one dataset after those of another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from feedline.block import Block
from feedline.errors import UsageError
from feedline.graph import Context, Indices, Node, Peek, Site, State, Stream, cardinality
from feedline.graph.alike import Alike, common_spec


@dataclass(frozen=True, eq=False)
class Concatenate(Node):
    parts: tuple[Node, ...]

    passes_rows_on = True
    is_portable = True

    @classmethod
    def of(cls, one: Node, other: Node, site: Site | None) -> Concatenate:
        """What is added to a concatenation becomes a part of it.

        Hundreds of datasets that are added in a loop would otherwise be so many steps inside of each other.
        """
        before = one.parts if isinstance(one, Concatenate) else (one,)
        return cls((*before, other), site=site)

    def __post_init__(self) -> None:
        self.spec(None)  # what is known already must fit

    def length(self) -> int | None:
        lengths = [part.length() for part in self.parts]
        return None if None in lengths else sum(length for length in lengths if length is not None)

    def cardinality(self) -> int:
        return cardinality.total([part.cardinality() for part in self.parts])

    def spec(self, peek: Peek | None) -> Any:
        return common_spec(self, self.parts, peek)

    def gather(self, indices: Indices, context: Context) -> Block:
        ends = np.cumsum([part.length() for part in self.parts])
        which = np.searchsorted(ends, indices, side="right")
        blocks, places = [], []
        for number in np.unique(which).tolist():
            places.append(np.flatnonzero(which == number))
            begin = ends[number - 1] if number else 0
            blocks.append(context.gather(self.parts[number], indices[places[-1]] - begin))
        joined = Block.concat(blocks)
        return joined if len(blocks) == 1 else joined.take(np.argsort(np.concatenate(places)))

    def open(self, context: Context, state: State) -> Stream:
        return _ConcatenateStream(self, context, state)


class _ConcatenateStream(Stream):
    def __init__(self, node: Concatenate, context: Context, state: State) -> None:
        self._node = node
        self._context = context
        self._alike = Alike(node)
        self._part: int
        self._part, inner = state or (0, None)
        self._stream: Stream | None = None  # of that part, once it has begun
        if inner is not None:
            self._stream = context.open(node.parts[self._part], inner)

    def next(self, limit: int) -> Block | None:
        while self._part < len(self._node.parts):
            if self._stream is None:
                self._stream = self._context.open(self._node.parts[self._part])
            block = self._stream.next(limit)
            if block is not None:
                try:
                    self._alike.check(block)
                except UsageError:
                    self._leave()  # or each block would be an error, and how many there are is chance
                    raise
                return block
            self._leave()
        return None

    def _leave(self) -> None:
        self.close()
        self._part += 1

    def state(self) -> State:
        return [self._part, None if self._stream is None else self._stream.state()]

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None

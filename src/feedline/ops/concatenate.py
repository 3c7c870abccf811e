"""concatenate: the elements of one dataset after those of another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from feedline.block import Block
from feedline.errors import UsageError
from feedline.graph import Context, Indices, Node, Peek, State, Stream, cardinality
from feedline.graph.alike import Alike
from feedline.spec import ObjectSpec, merge_specs
from feedline.structure import flatten


@dataclass(frozen=True, eq=False)
class Concatenate(Node):
    parts: tuple[Node, Node]

    passes_rows_on = True
    is_portable = True

    def __post_init__(self) -> None:
        self.spec(None)  # what is known already must fit

    def length(self) -> int | None:
        lengths = [part.length() for part in self.parts]
        return None if None in lengths else sum(length for length in lengths if length is not None)

    def cardinality(self) -> int:
        return cardinality.total([part.cardinality() for part in self.parts])

    def spec(self, peek: Peek | None) -> Any:
        one, other = (part.spec(peek) for part in self.parts)
        if one is None or other is None:
            return None
        leaves, structure = flatten(one)
        others, other_structure = flatten(other)
        merged = [merge_specs(a, b) for a, b in zip(leaves, others, strict=False)]
        mixed = any(isinstance(m, ObjectSpec) and m != a for m, a in zip(merged, leaves, strict=False))
        if structure != other_structure or mixed:
            raise UsageError(
                f"{self}: the second dataset has elements {other}, and the first {one}.\n"
                "  Both must have the same structure and dtypes: change one of them, with map."
            )
        return structure.unflatten(merged)

    def gather(self, indices: Indices, context: Context) -> Block:
        border = self.parts[0].length()
        assert border is not None
        first = np.flatnonzero(indices < border)
        second = np.flatnonzero(indices >= border)
        blocks = []
        if len(first):
            blocks.append(context.gather(self.parts[0], indices[first]))
        if len(second):
            blocks.append(context.gather(self.parts[1], indices[second] - border))
        joined = Block.concat(blocks)
        return joined if len(blocks) == 1 else joined.take(np.argsort(np.concatenate([first, second])))

    def open(self, context: Context, state: State) -> Stream:
        return _ConcatenateStream(self, context, state)


class _ConcatenateStream(Stream):
    def __init__(self, node: Concatenate, context: Context, state: State) -> None:
        self._node = node
        self._context = context
        self._alike = Alike(node)
        self._part: int  # 2: there is none any more, because the second does not fit
        self._part, inner = state or (0, None)
        self._stream = context.open(node.parts[self._part], inner) if self._part < 2 else None

    def next(self, limit: int) -> Block | None:
        if self._stream is None:
            return None
        block = self._stream.next(limit)
        if block is None and self._part == 0:
            self._stream.close()
            self._part = 1
            self._stream = self._context.open(self._node.parts[1])
            block = self._stream.next(limit)
        if block is not None:
            try:
                self._alike.check(block)
            except UsageError:
                if self._part == 1:
                    self.close()  # or each block would be an error, and how many there are is chance
                    self._part = 2
                raise
        return block

    def state(self) -> State:
        return [self._part, None if self._stream is None else self._stream.state()]

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None

"""zip: elements of several datasets side by side, until the first of them ends."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from feedline.block import Block, Column
from feedline.errors import UsageError
from feedline.graph import Context, Cursor, Indices, Node, Peek, State, Stream, cardinality
from feedline.spec import any_sizes
from feedline.structure import Structure, flatten


@dataclass(frozen=True, eq=False)
class Zip(Node):
    parts: tuple[Node, ...]
    structure: Structure  # of the zipped elements, with a dataset's element for each leaf

    def __post_init__(self) -> None:
        if not self.parts:
            raise UsageError("zip(): give one dataset at least.")

    def length(self) -> int | None:
        lengths = [part.length() for part in self.parts]
        return None if None in lengths else min(length for length in lengths if length is not None)

    def cardinality(self) -> int:
        return cardinality.least([part.cardinality() for part in self.parts])

    def spec(self, peek: Peek | None) -> Any:
        specs = [part.spec(peek) for part in self.parts]
        if None in specs and self in _specs:
            specs = [seen if spec is None else spec for spec, seen in zip(specs, _specs[self], strict=True)]
        return None if None in specs else self.structure.unflatten(specs)

    def gather(self, indices: Indices, context: Context) -> Block:
        return self.zipped([context.gather(part, indices) for part in self.parts])

    def zipped(self, blocks: list[Block]) -> Block:
        """Blocks of the same number of rows, side by side."""
        if self not in _specs:
            _specs[self] = [any_sizes(block.spec) for block in blocks]
        numbered: list[Any] = []
        columns: list[Column] = []
        for block in blocks:
            leaves = list(range(len(columns), len(columns) + len(block.columns)))
            numbered.append(block.structure.unflatten(leaves))
            columns += block.columns
        # A structure orders its leaves in its own way.
        order, structure = flatten(self.structure.unflatten(numbered))
        return Block._trusted(structure, [columns[number] for number in order], blocks[0].rows)

    def open(self, context: Context, state: State) -> Stream:
        return _ZipStream(self, context, state)


# What the first elements told. A batch asks for it, which runs after that: what one part does not know before
# must not keep it from knowing that another is ragged.
_specs: WeakKeyDictionary[Zip, list[Any]] = WeakKeyDictionary()


class _ZipStream(Stream):
    def __init__(self, node: Zip, context: Context, state: State) -> None:
        self._node = node
        states = state or [None] * len(node.parts)
        self._parts = [Cursor(context, part, one) for part, one in zip(node.parts, states, strict=True)]

    def next(self, limit: int) -> Block | None:
        blocks = []
        for part in self._parts:
            try:
                block = part.peek(limit)
            except Exception:
                self._pass_beside(part)
                raise
            if block is None:
                return None
            blocks.append(block)
            limit = min(limit, block.rows)
        for part in self._parts:
            part.advance(limit)
        return self._node.zipped([block.slice(0, limit) for block in blocks])

    def _pass_beside(self, failed: Cursor) -> None:
        """Pass what is beside an element that failed, so that the parts stay in step."""
        for part in self._parts:
            if part is not failed:
                with suppress(Exception):  # one error is told, that of the first part
                    part.skip(1)

    def state(self) -> State:
        return [part.state() for part in self._parts]

    def close(self) -> None:
        for part in self._parts:
            part.close()

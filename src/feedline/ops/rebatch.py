"""rebatch: batches cut and joined to other sizes, which may take turns. Only what is joined is copied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from feedline.block import Block
from feedline.column import Bytes, Ragged, row_of
from feedline.errors import UsageError
from feedline.graph import UNKNOWN, Context, Cursor, Node, Peek, Site, State, Stream
from feedline.graph.arguments import check_bool
from feedline.ops.batch import Batch, regroup
from feedline.ops.unbatch import Unbatch
from feedline.spec import leaf_spec


@dataclass(frozen=True, eq=False)
class Rebatch(Node):
    input: Unbatch
    batch_size: int | tuple[int, ...]
    drop_remainder: bool

    def __post_init__(self) -> None:
        check_bool(self, "drop_remainder")

    @classmethod
    def of(cls, batches: Node, batch_size: Any, drop_remainder: bool, site: Site | None) -> Rebatch:
        sizes = np.asarray(batch_size)
        if (
            sizes.dtype.kind not in "iu"
            or sizes.ndim > 1
            or not sizes.size
            or not 1 <= sizes.min() <= sizes.max() < 2**63
        ):
            raise UsageError(
                f"rebatch(batch_size={batch_size!r}): give the size of batches, 1 at least, or a list of "
                "sizes that take turns."
            )
        plain = tuple(sizes.tolist()) if sizes.ndim else int(sizes)
        return cls(Unbatch(batches, site=site), plain, drop_remainder, site=site)

    @property
    def sizes(self) -> tuple[int, ...]:
        """They take turns."""
        return (self.batch_size,) if isinstance(self.batch_size, int) else self.batch_size

    def cardinality(self) -> int:
        return UNKNOWN

    def spec(self, peek: Peek | None) -> Any:
        size, before = self.sizes[0], self.input.batch_size()
        whole = self.drop_remainder or (before is not None and before % size == 0)
        fixed = whole and len(set(self.sizes)) == 1
        return Batch(self.input, size, fixed).spec(peek)

    def open(self, context: Context, state: State) -> Stream:
        return _RebatchStream(self, context, state)


class _RebatchStream(Stream):
    def __init__(self, node: Rebatch, context: Context, state: State) -> None:
        self._node = node
        self._sizes = node.sizes
        self._turn: int
        at_rows, self._turn = state or (None, 0)
        self._rows = Cursor(context, node.input, at_rows)
        self._batches = 1  # that may be cut out of a block at once
        if len(set(self._sizes)) == 1:
            self._batches = max(1, context.block_rows // self._sizes[0])

    def next(self, limit: int) -> Block | None:
        size = self._sizes[self._turn]
        block = self._rows.peek(size * min(limit, self._batches))
        if block is None:
            return None
        if block.rows >= size:
            block = block.slice(0, block.rows - block.rows % size)
            self._rows.advance(block.rows)
            self._pass_turn()
            columns = [regroup(column, size) for column in block.columns]
            return Block._trusted(block.structure, columns, block.rows // size)
        first = self._rows.passed
        parts = self._rows.collect(size)
        self._pass_turn()
        if sum(part.rows for part in parts) < size and self._node.drop_remainder:
            return None
        return self._joined(parts, first)

    def _pass_turn(self) -> None:
        self._turn = (self._turn + 1) % len(self._sizes)

    def _joined(self, parts: list[Block], first: int) -> Block:
        block = Block.concat(parts)
        made = []
        for number, column in enumerate(block.columns):
            ragged = isinstance(column, Ragged) and isinstance(parts[0].columns[number], Ragged)
            if not ragged and not isinstance(column, np.ndarray | Bytes):
                self._refuse(parts, number, first)
            made.append(regroup(column, block.rows))
        return Block._trusted(block.structure, made, 1)

    def _refuse(self, parts: list[Block], number: int, first: int) -> None:
        path = parts[0].structure.paths()[number]
        specs = [leaf_spec(row_of(part.columns[number], 0)) for part in parts]
        at = next((i for i, spec in enumerate(specs) if spec != specs[0]), 0)
        row = first + sum(part.rows for part in parts[:at])
        raise UsageError(
            f"{self._node}: row {row:,} of the batches has {specs[at]} at {path}, and row {first:,}, the "
            f"first of its new batch, {specs[0]}.\n"
            "  Rows that are joined must have equal shapes. To fill them up:  unbatch().padded_batch(...)"
        )

    def state(self) -> State:
        return [self._rows.state(), self._turn]

    def close(self) -> None:
        self._rows.close()

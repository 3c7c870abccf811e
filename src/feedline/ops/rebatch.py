"""rebatch: batches cut and joined to other sizes, which may take turns. Only what is joined is copied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from feedline.block import Block
from feedline.column import Bytes, Column, Objects, Ragged, row_of
from feedline.errors import UsageError
from feedline.graph import UNKNOWN, Context, Cursor, Node, Peek, Site, State, Stream
from feedline.graph.alike import NoElement
from feedline.graph.arguments import check_bool
from feedline.graph.memory import Account
from feedline.ops.batch import batch_account, batch_spec, regroup
from feedline.ops.nested import are_datasets
from feedline.ops.unbatch import Unbatch
from feedline.spec import STRING, ObjectSpec, RaggedSpec, Spec, leaf_spec
from feedline.structure import flatten


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
            or not 0 <= sizes.min() <= sizes.max() < 2**63
        ):
            raise UsageError(
                f"rebatch(batch_size={batch_size!r}): give the size of batches, at least 0, or a list of "
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
        whole = self.drop_remainder or (before is not None and size > 0 and before % size == 0)
        fixed = whole and len(set(self.sizes)) == 1
        return batch_spec(self.input.spec(peek), size if fixed else None)

    def open(self, context: Context, state: State) -> Stream:
        return _RebatchStream(self, context, state)


class _RebatchStream(Stream):
    def __init__(self, node: Rebatch, context: Context, state: State) -> None:
        self._node = node
        self._sizes = node.sizes
        self._context = context
        self._turn: int | None  # None: after the last batch, where not even an empty one follows
        at_rows, self._turn = state or (None, 0)
        self._rows = Cursor(context, node.input, at_rows)
        self.account: Account = batch_account(node, context)
        self._batches = 1  # that may be cut out of a block at once
        if len(set(self._sizes)) == 1:
            self._batches = max(1, context.block_rows // max(1, self._sizes[0]))

    def next(self, limit: int) -> Block | None:
        if self._turn is None:
            return None
        size = self._sizes[self._turn]
        if size == 0:
            empty = self._empty()
            self._pass_turn()
            return empty
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
        parts = self._rows.collect(size, self.account)
        self._pass_turn()
        if sum(part.rows for part in parts) < size:
            self._turn = None
            if self._node.drop_remainder:
                return None
        joined = self._joined(parts, first)
        self.account.hold(0)
        return joined

    def _pass_turn(self) -> None:
        if self._turn is not None:
            self._turn = (self._turn + 1) % len(self._sizes)

    def _empty(self) -> Block | None:
        """A batch of no rows. Only the spec says what it is like, so that reading ahead makes no difference.

        None, and the end, where there is no element that could tell the spec.
        """
        rows = self._node.input
        try:
            spec = rows.spec(None) or rows.spec(self._context.peek)
        except NoElement:
            self._turn = None
            return None
        leaves, structure = flatten(spec)
        return Block._trusted(structure, [_empty_batch(leaf) for leaf in leaves], 1)

    def _joined(self, parts: list[Block], first: int) -> Block:
        block = Block.concat(parts)
        made = []
        for number, column in enumerate(block.columns):
            ragged = isinstance(column, Ragged) and isinstance(parts[0].columns[number], Ragged)
            if not ragged and not isinstance(column, np.ndarray | Bytes) and not are_datasets(column):
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


def _empty_batch(leaf: Spec) -> Column:
    """A column of one row, a batch of none. Sizes that are not known are 0, as in tf.data."""
    if isinstance(leaf, ObjectSpec):
        return Objects([Objects([])])
    if isinstance(leaf, RaggedSpec):
        return Ragged._trusted(_empty_ragged(leaf), np.zeros(2, np.int64))
    shape = (0, *(size or 0 for size in leaf.shape or ()))
    return Bytes.of([], shape, 1) if leaf.dtype == STRING else np.empty((1, *shape), leaf.dtype)


def _empty_ragged(row: RaggedSpec) -> Ragged:
    """No rows."""
    shape = tuple(size or 0 for size in row.shape[1 + row.ragged_rank :])
    values: Column = Bytes.of([], shape, 0) if row.dtype == STRING else np.empty((0, *shape), row.dtype)
    for _ in range(row.ragged_rank + 1):
        values = Ragged._trusted(values, np.zeros(1, np.int64))
    assert isinstance(values, Ragged)
    return values

"""unique: each element once, where it first comes.

The state is only the position in the input: a restored stream reads what is before it again, to know what it
has seen.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from feedline.block import Block
from feedline.column import Column, iter_rows
from feedline.errors import WrongKind
from feedline.graph import UNKNOWN, Context, Cursor, Node, Peek, State, Stream
from feedline.spec import STRING, ArraySpec
from feedline.structure import flatten

_DTYPES = (np.dtype(np.int32), np.dtype(np.int64), STRING)
_LONG = 64  # bytes; of longer values, only a digest is remembered


@dataclass(frozen=True, eq=False)
class Unique(Node):
    input: Node

    def __post_init__(self) -> None:
        spec = self.input.spec(None)
        if spec is not None:
            self.check(spec)

    def check(self, spec: Any) -> None:
        leaves, structure = flatten(spec)
        is_one = len(leaves) == 1 and not structure.has_none
        if not is_one or not isinstance(leaves[0], ArraySpec) or leaves[0].dtype not in _DTYPES:
            raise WrongKind(
                f"unique: each element must be one int32, int64 or string, or an array of them, not {spec}.\n"
                "  To keep others apart, give each a string of its own:  map(...)"
            )

    def cardinality(self) -> int:
        return UNKNOWN

    def spec(self, peek: Peek | None) -> Any:
        return self.input.spec(peek)

    def open(self, context: Context, state: State) -> Stream:
        return _UniqueStream(self, context, state)


class _UniqueStream(Stream):
    def __init__(self, node: Unique, context: Context, state: State) -> None:
        self._node = node
        self._context = context
        self._rows = Cursor(context, node.input, state)
        self._seen: set[Any] = set()
        if self._rows.passed:
            self._read_again(self._rows.passed)

    def next(self, limit: int) -> Block | None:
        while (block := self._rows.peek(self._context.block_rows)) is not None:
            self._node.check(block.spec)
            new, rows = self._new_rows(block, limit)
            self._rows.advance(rows)
            if new:
                return block.slice(0, rows) if len(new) == rows else block.take(new)
        return None

    def _new_rows(self, block: Block, limit: int) -> tuple[list[int], int]:
        """The first rows that were not seen, `limit` at most; and how many were looked at."""
        new: list[int] = []
        for row, key in enumerate(_keys(block.columns[0])):
            if key not in self._seen:
                self._seen.add(key)
                new.append(row)
                if len(new) == limit:
                    return new, row + 1
        return new, block.rows

    def _read_again(self, rows: int) -> None:
        again = Cursor(self._context, self._node.input)
        try:
            while again.passed < rows:
                try:
                    block = again.take(min(rows - again.passed, self._context.block_rows))
                except Exception:
                    continue  # it was raised before
                if block is None:
                    break
                self._seen.update(_keys(block.columns[0]))
        finally:
            again.close()

    def state(self) -> State:
        return self._rows.state()

    def close(self) -> None:
        self._rows.close()
        self._seen = set()


def _keys(column: Column) -> Iterable[Any]:
    """For each row a value that equal rows share, and others do not."""
    if isinstance(column, np.ndarray) and column.ndim == 1:
        return column.tolist()  # type: ignore[no-any-return]
    return map(_key, iter_rows(column))


def _key(row: Any) -> Any:
    if isinstance(row, bytes):
        return _short(row)
    if isinstance(row, np.generic):
        return row.item()
    if row.dtype == STRING:
        strings = row.ravel().tolist()
        # Their lengths, too: ["ab", "c"] is not ["a", "bc"].
        return row.shape, tuple(map(len, strings)), _short(b"".join(strings))
    return row.shape, _short(row.tobytes())


def _short(data: bytes) -> bytes:
    return data if len(data) < _LONG else hashlib.blake2b(data, digest_size=_LONG).digest()

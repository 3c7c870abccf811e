"""from_tfrecords: the records of TFRecord files, decoded or as they are.

Files are read and decoded in native threads. Where every file has its index beside it, records can also be
had in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from feedline.block import Block
from feedline.errors import UsageError
from feedline.graph import UNKNOWN, Context, Indices, Node, Peek, Source, State, Stream, Wholes
from feedline.records.blocks import BlockSource, PointSource, TurnSource, begin_small
from feedline.records.decode import Plan, plan_of
from feedline.records.file_facts import file_facts
from feedline.spec import STRING, ArraySpec

# Of a block: fewer would cost more than they spare, and more would leave the processor's caches. In between,
# a part of what is wanted, so that whole batches fit into it.
_FEWEST_ROWS, _MOST_ROWS = 64, 1024


@dataclass(frozen=True, eq=False)
class TFRecords(Node):
    paths: tuple[str, ...]
    features: Any  # as `features.normalize` gives them; None: the records are bytes
    compression: str
    verify: bool
    skip: bool  # pass over what is damaged

    passes_rows_on = True
    is_portable = True
    file_fields = frozenset({"paths"})

    @property
    def plan(self) -> Plan | None:
        return None if self.features is None else plan_of(self.features)

    @cached_property
    def _points(self) -> PointSource | None:
        # With records left out, numbers would not be those of the index.
        if self.skip or self.compression not in ("auto", "none"):
            return None
        return PointSource.of(self.paths, self.plan, verify=self.verify)

    def sources(self) -> list[Source]:
        return [Source(*facts) for facts in file_facts(self.paths)]

    def length(self) -> int | None:
        return None if self._points is None else len(self._points)

    def cardinality(self) -> int:
        length = self.length()
        return UNKNOWN if length is None else length

    def spec(self, peek: Peek | None) -> Any:
        return ArraySpec((), STRING) if self.plan is None else self.plan.spec

    def gather(self, indices: Indices, context: Context) -> Block:
        if self._points is None:
            raise UsageError(f"{self}: without an index beside each file, records come in order only.")
        return self._points.take(indices, context.open_files)

    def whole_key(self) -> Hashable | None:
        if len(self.paths) != 1 or self.compression not in ("auto", "none"):
            return None
        return TFRecords, self.plan, self.compression, self.verify

    def begin_whole(self, nodes: Sequence[Node], context: Context) -> Callable[[], Wholes]:
        wait = begin_small(
            [path for node in nodes for path in _paths(node)],
            self.plan,
            compression=self.compression,
            verify=self.verify,
            as_rows=context.rows_are_picked,
        )
        return lambda: Wholes(*wait())

    def open_by_turns(
        self, nodes: Sequence[Node], states: Sequence[State], turn: int, context: Context
    ) -> Stream | None:
        try:
            return _TurnStream(self, [path for node in nodes for path in _paths(node)], states, turn, context)
        except ValueError:  # a UsageError, or a name that cannot be encoded: raised for the one alone
            return None

    def open(self, context: Context, state: State) -> Stream:
        return _RecordStream(self, context, state)


class _RecordStream(Stream):
    def __init__(self, node: TFRecords, context: Context, state: State) -> None:
        self._node = node
        self._context = context
        self._place = tuple(state) if state else (0, 0, 0)
        self._source: BlockSource | None = None
        self._ended = False

    def next(self, limit: int) -> Block | None:
        if self._ended:
            return None
        source = self._source or self._open(limit)
        try:
            block = source.next()
        finally:
            self._place = source.place
        if block is None:
            self._ended = True
            source.skipped.warn()
            self.close()
        return block

    def _open(self, rows: int) -> BlockSource:
        """Only now, because what is asked for first tells what size of block fits the next step."""
        node, context = self._node, self._context
        alone = context.siblings == 1
        self._source = BlockSource(
            node.paths,
            node.plan,
            rows=_rows_of_block(rows),
            threads=context.services.cores if alone else 1,
            compression=node.compression,
            verify=node.verify,
            skip=node.skip,
            start=self._place,
            block_bytes=context.block_bytes,
            shared=not alone,
            as_rows=context.rows_are_picked,
            budgets=context.open_files,
        )
        return self._source

    def state(self) -> State:
        return list(self._place)

    def close(self) -> None:
        if self._source is not None:
            self._source.close()
            self._source = None


def _paths(node: Node) -> tuple[str, ...]:
    assert isinstance(node, TFRecords)
    return node.paths


def _rows_of_block(wanted: int) -> int:
    return max(_FEWEST_ROWS, wanted // -(-wanted // _MOST_ROWS))


class _TurnStream(Stream):
    """Files by turns. A state is that of a Cursor for each of them."""

    def __init__(
        self, node: TFRecords, paths: Sequence[str], states: Sequence[State], turn: int, context: Context
    ) -> None:
        self._states = list(states)
        self._turn = turn
        starts = [(tuple(before or (0, 0, 0)), drop) for before, drop, _ in states]
        self._source = TurnSource(
            [(path, (0, *place[1:]), drop) for path, (place, drop) in zip(paths, starts, strict=True)],
            node.plan,
            turn=turn,
            rows=_MOST_ROWS,
            compression=node.compression,
            verify=node.verify,
            block_bytes=context.block_bytes,
            as_rows=context.rows_are_picked,
        )

    def next(self, limit: int) -> Block | None:
        block = self._source.next()
        if block is not None:
            assert self._source.places is not None
            rounds, rest = divmod(block.rows, self._turn * len(self._states))
            for at, (_, offset, record) in enumerate(self._source.places):
                rows = rounds * self._turn + min(max(rest - at * self._turn, 0), self._turn)
                if rows:
                    self._states[at] = [[0, offset, record], 0, self._states[at][2] + rows]
        return block

    def state(self) -> State:
        return list(self._states)

    def close(self) -> None:
        self._source.close()

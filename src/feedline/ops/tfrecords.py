"""from_tfrecords: the records of TFRecord files, decoded or as they are.

Files are read and decoded in native threads. Where every file has its index beside it, records can also be
had in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from feedline.block import Block
from feedline.errors import UsageError
from feedline.graph import UNKNOWN, Context, Indices, Node, Peek, Source, State, Stream, Wholes
from feedline.graph.memory import Account
from feedline.records.blocks import BlockSource, PointSource, TurnSource, begin_small
from feedline.records.decode import Plan, plan_of
from feedline.records.file_facts import file_facts
from feedline.spec import STRING, ArraySpec

# Of a block: fewer would cost more than they spare, and more would leave the processor's caches. In between,
# a part of what is wanted, so that whole batches fit into it.
_FEWEST_ROWS, _MOST_ROWS = 64, 1024

# What the native core holds: a chunk of the file, smaller where blocks are small; or a stretch for each of
# several threads; or, when many files are read by turns, two blocks that are ready or under way.
_CHUNK, _SMALLEST_CHUNK, _SMALL_BLOCK = 256 << 10, 4 << 10, 64 << 10
_STRETCH = 512 << 10
_BLOCKS_AHEAD = 2
_FOR_READING, _STRETCHES = 8, 64  # what part of a memory limit is for all threads, and for a stretch
_REMEDY = "Raise the limit, or lower the cycle_length of interleave if many files are read by turns."


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
            budgets=context.open_files,
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


class _Reading(NamedTuple):
    """How the native core reads."""

    threads: int
    block_bytes: int
    is_ahead: bool  # by threads that many readers share
    chunk: int  # bytes

    @classmethod
    def of(cls, context: Context) -> _Reading:
        block_bytes, alone, limit = context.block_bytes, context.siblings == 1, context.budget.tightest
        threads = context.services.cores if alone else 1
        if limit is not None and alone:
            stretch = max(_STRETCH, limit // _STRETCHES)
            block_bytes = min(block_bytes, stretch)
            threads = max(1, min(threads, limit // _FOR_READING // stretch - 1))
        elif limit is not None:
            block_bytes = min(block_bytes, _SMALL_BLOCK - 1)
        chunk = _CHUNK if block_bytes >= _SMALL_BLOCK else max(block_bytes, _SMALLEST_CHUNK)
        return cls(threads, block_bytes, not alone, chunk)

    def within(self, account: Account) -> _Reading:
        """Without reading ahead, where there is no room for it."""
        ahead = self.ahead(max(self.block_bytes, account.element_bytes))
        if self.is_ahead and not account.may_hold(ahead):
            return self._replace(is_ahead=False)
        account.hold(ahead)
        return self

    def ahead(self, block: int) -> int:
        """Bytes that it may hold ahead, if blocks are of that size."""
        if self.is_ahead:
            return _BLOCKS_AHEAD * block
        return 0 if self.threads == 1 else (self.threads + 1) * max(_STRETCH, block)


class _RecordStream(Stream):
    def __init__(self, node: TFRecords, context: Context, state: State) -> None:
        self._node = node
        self._context = context
        self._place = tuple(state) if state else (0, 0, 0)
        self._source: BlockSource | None = None
        self._ended = False
        self._reading = _Reading.of(context)
        self._ahead: Account | None = None
        if context.budget.is_limited:  # else it is not worth the time, for very small files
            self.account = context.budget.account(node, "what it reads at a time", _REMEDY)
            self.account.hold(0, self._reading.chunk)
            self._ahead = context.budget.account(node)

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
        elif self.account is not None and self._ahead is not None:
            self.account.hold(self._reading.chunk)
            self._ahead.hold(self._reading.ahead(block.nbytes))
        return block

    def _open(self, rows: int) -> BlockSource:
        """Only now, because what is asked for first tells what size of block fits the next step."""
        node, context = self._node, self._context
        if self.account is not None and self._ahead is not None:
            rows = max(
                rows, _MOST_ROWS
            )  # few are asked for until their size is known; `block_bytes` ends blocks
            self._ahead.measure = self.account.measure
            self._reading = self._reading.within(self._ahead)
        self._source = BlockSource(
            node.paths,
            node.plan,
            rows=_rows_of_block(rows),
            threads=self._reading.threads,
            compression=node.compression,
            verify=node.verify,
            skip=node.skip,
            start=self._place,
            block_bytes=self._reading.block_bytes,
            shared=self._reading.is_ahead,
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
        if self._ahead is not None:
            self._ahead.close()


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
            budgets=context.open_files,
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

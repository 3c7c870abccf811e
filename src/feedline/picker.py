"""Rows picked out of several blocks or tables, natively, and for all columns at once.

A pick is a number: that of the source in its upper 32 bits, and that of the row in its lower ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from feedline import _native
from feedline.column import Bytes, Column, Offsets, Ragged, flat_bytes, slice_of, take
from feedline.joining import concat
from feedline.table import Maker, Table

Columns: TypeAlias = tuple[Column, ...]
Picks: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

_ROW_BITS = 32
MOST_ROWS = 1 << _ROW_BITS  # that a source may have


def picks_of(source: Any, rows: Any, out: Picks | None = None) -> Picks:
    """Rows of a source, or row rows[0] of source[0] and so on; written to `out`, if that is given."""
    picks: Picks = np.add(rows, source << _ROW_BITS, out=out)
    return picks


def sources_in(picks: Picks) -> Picks:
    """The number of each pick's source."""
    return picks >> _ROW_BITS


class _Kind(NamedTuple):
    """What the columns of a leaf must have in common to be picked from natively."""

    column: type
    dtype: Any = None
    shape: tuple[int, ...] = ()  # of a row, or of an item of one


class Source(Protocol):
    """A Block or a Table."""

    @property
    def columns(self) -> Columns: ...


class Picker:
    """Sources of one structure. More may be added while other threads pick."""

    __slots__ = ("_columns", "_sources", "_tables", "_ways")

    def __init__(self) -> None:
        self._sources: list[Source] = []
        self._tables: _Tables | None = None  # while all are tables of one kind; else:
        self._columns: list[Columns] = []  # of each source
        self._ways: _Ways | None = None

    def add(self, source: Source) -> None:
        if isinstance(source, Table) and not self._sources:
            self._tables = _Tables(source.maker, _native.TablePicker(source.maker.schema))
        tables = self._tables
        if tables is not None and isinstance(source, Table) and source.maker is tables.maker:
            tables.native.add(source.native)
        else:
            if tables is not None:
                for earlier in self._sources:
                    self._add_columns(earlier.columns)
                self._tables = None
            self._add_columns(source.columns)
        self._sources.append(source)

    def _add_columns(self, columns: Columns) -> None:
        kinds = [_kind_of(column) for column in columns]
        ways = self._ways
        if ways is None or ways.kinds != kinds:
            if ways is not None:
                kinds = [one if one == other else None for one, other in zip(ways.kinds, kinds, strict=True)]
            ways = _Ways(kinds)
            for earlier in self._columns:
                ways.add(earlier)
        ways.add(columns)
        self._columns.append(columns)
        self._ways = ways

    def only(self, numbers: Sequence[int]) -> Picker:
        """A picker of some of the sources, which are numbered anew in that order."""
        some = Picker()
        some._sources = [self._sources[number] for number in numbers]
        if self._tables is not None:
            some._tables = _Tables(self._tables.maker, self._tables.native.only(numbers))
        else:
            some._columns = [self._columns[number] for number in numbers]
            some._ways = None if self._ways is None else self._ways.only(numbers)
        return some

    def pick(self, picks: Picks) -> Columns:
        """There must be one source at least."""
        tables = self._tables
        if tables is not None:
            return tables.maker.columns(len(picks), tables.native.pick(picks))
        ways = self._ways
        assert ways is not None
        picked: list[Any] = [None] * len(ways.kinds)
        if ways.dense:
            for leaf, array in zip(ways.dense, ways.rows.pick(picks), strict=True):
                picked[leaf] = array
        for leaf, ranges in ways.ranges.items():
            picked[leaf] = _ranges_column(ways.kinds[leaf], *ranges.pick(picks))
        for leaf in ways.others:
            picked[leaf] = _pick_any([columns[leaf] for columns in self._columns], picks)
        return tuple(picked)

    def begin(self, picks: Picks) -> _native.BegunRows | None:
        """Have the columns copied in other threads, if that can be done for all of them."""
        ways = self._ways
        if self._tables is not None or ways is None or len(ways.dense) < len(ways.kinds):
            return None
        return ways.rows.begin(picks)

    def copy(self, picks: Picks) -> Table | Columns:
        """The same in memory of its own; of tables, as a table."""
        tables = self._tables
        if tables is not None:
            return Table(tables.maker, tables.native.copy(picks))
        return self.pick(picks)


class _Tables(NamedTuple):
    maker: Maker
    native: _native.TablePicker


class _Ways:
    """How each leaf is picked: dense ones together, ragged ones each alone, others in Python."""

    def __init__(self, kinds: Sequence[_Kind | None]) -> None:
        self.kinds = list(kinds)
        self.dense = [leaf for leaf, kind in enumerate(kinds) if kind and kind.column is np.ndarray]
        self.others = [leaf for leaf, kind in enumerate(kinds) if kind is None]
        self.rows = _native.RowPicker()
        self.ranges = {
            leaf: _native.RangePicker(_unit(kind))
            for leaf, kind in enumerate(kinds)
            if kind and kind.column is not np.ndarray
        }

    def add(self, columns: Columns) -> None:
        if self.dense:
            arrays: list[Any] = [columns[leaf] for leaf in self.dense]
            self.rows.add(arrays)
        for leaf, ranges in self.ranges.items():
            ranges.add(*_ranges_of(columns[leaf]))

    def only(self, numbers: Sequence[int]) -> _Ways:
        some = _Ways(self.kinds)
        some.rows = self.rows.only(numbers) if self.dense else self.rows
        some.ranges = {leaf: ranges.only(numbers) for leaf, ranges in self.ranges.items()}
        return some


def _kind_of(column: Column) -> _Kind | None:
    if isinstance(column, np.ndarray):
        return _Kind(np.ndarray, column.dtype, column.shape[1:])
    if isinstance(column, Bytes) and column.shape == ():
        return _Kind(Bytes)
    if isinstance(column, Ragged) and isinstance(column._values, np.ndarray):
        kind = _Kind(Ragged, column._values.dtype, column._values.shape[1:])
        return kind if _unit(kind) else None
    return None


def _unit(kind: _Kind) -> int:
    """How many bytes an item of a row has."""
    return 1 if kind.dtype is None else kind.dtype.itemsize * prod(kind.shape)


def _ranges_of(column: Column) -> tuple[Any, Offsets]:
    if isinstance(column, Bytes):
        return column.data, column.offsets
    assert isinstance(column, Ragged)
    assert isinstance(column._values, np.ndarray)
    return flat_bytes(column._values), column._offsets


def _ranges_column(kind: _Kind | None, data: Any, offsets: Offsets) -> Column:
    assert kind is not None
    if kind.column is Bytes:
        return Bytes(data, offsets)
    return Ragged._trusted(data.view(kind.dtype).reshape(-1, *kind.shape), offsets)


def _pick_any(columns: Sequence[Column], picks: Picks) -> Column:
    """Column by column, and then into their order."""
    which, rows = sources_in(picks), picks & (MOST_ROWS - 1)
    order = np.argsort(which, kind="stable")
    numbers, begins = np.unique(which[order], return_index=True)
    ends = [*begins[1:].tolist(), len(order)]
    parts = [
        take(columns[number], rows[order[begin:end]])
        for number, begin, end in zip(numbers.tolist(), begins.tolist(), ends, strict=True)
    ]
    if not parts:
        return slice_of(columns[0], 0, 0)
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return take(concat(parts), places)

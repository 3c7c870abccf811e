"""A Block: a run of consecutive elements, stored as one column per leaf.

Blocks are what moves through a pipeline. They are never changed: `slice` shares memory with the whole, `take`
and `concat` copy, in native code, into memory of the pool. A row comes out as tf.data's as_numpy_iterator
gives it: a NumPy scalar, bytes for a string, else an array.

A block may also be rows picked out of others, or out of tables (`Sources`). They are copied when its columns
are first looked at, and not at all when rows are picked out of it in turn: so steps that only reorder cost
one copy together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import Lock
from typing import Any, TypeAlias

import numpy as np

from feedline import _native
from feedline import column as columns_
from feedline.column import Bytes, Column, Objects, Ragged
from feedline.errors import UsageError
from feedline.joining import concat, stack
from feedline.picker import MOST_ROWS, Picker, Picks, picks_of
from feedline.spec import as_leaf, dtype_name
from feedline.structure import Structure, flatten
from feedline.table import Table

__all__ = ["Block", "Bytes", "Column", "Objects", "Ragged", "Sources"]


Indices: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]


class Block:
    """Elements as columns.

    >>> block = Block.from_elements([{"x": np.float32(1), "name": "a"}, {"x": np.float32(2), "name": "bc"}])
    >>> block
    <Block, 2 rows: {'x': ArraySpec((), float32), 'name': ArraySpec((), string)}>
    >>> block.row(1)
    {'x': np.float32(2.0), 'name': b'bc'}
    >>> block.take([1, 0]).as_batch()
    {'x': array([2., 1.], dtype=float32), 'name': array([b'bc', b'a'], dtype=object)}
    """

    __slots__ = ("_columns", "_picks", "rows", "structure")

    structure: Structure
    rows: int
    _columns: tuple[Column, ...] | None
    _picks: _Picked | None  # where the columns come from, until they are there

    def __init__(self, structure: Structure, columns: Sequence[Column], rows: int) -> None:
        if len(columns) != structure.leaf_count:
            raise UsageError(f"{structure} has {structure.leaf_count} leaves, not {len(columns)} columns.")
        for number, column in enumerate(columns):
            try:
                _check(column, rows)
            except UsageError as error:
                raise UsageError(f"{structure.paths()[number]}: {error}") from None
        self.structure = structure
        self._columns, self._picks = tuple(columns), None
        self.rows = rows

    @classmethod
    def _trusted(cls, structure: Structure, columns: Sequence[Column], rows: int) -> Block:
        block = cls.__new__(cls)
        block.structure, block._columns, block.rows, block._picks = structure, tuple(columns), rows, None
        return block

    @classmethod
    def _picked(cls, structure: Structure, picks: _Picked) -> Block:
        block = cls.__new__(cls)
        block.structure, block._columns, block.rows, block._picks = structure, None, len(picks.picks), picks
        return block

    @classmethod
    def of_table(cls, table: Table) -> Block:
        """The rows of a table. No column is made of them yet."""
        sources = Sources()
        return sources.pick(sources.add(table))

    @property
    def columns(self) -> tuple[Column, ...]:
        picks = self._picks
        if picks is not None:
            self._columns = picks.columns()
            self._picks = None  # so that the blocks they came from can go; last, for other threads
        assert self._columns is not None
        return self._columns

    @property
    def is_picked(self) -> bool:
        """Are there no columns yet? They are copied together when they are asked for."""
        return self._picks is not None

    @classmethod
    def from_rows(cls, structure: Structure, rows: Sequence[Sequence[Any]]) -> Block:
        """Stack elements that are flattened already: each row is the leaves of one.

        Each column is the tightest that its values fit: dense when all have one dtype and shape, ragged when
        only the first dimension changes, and Objects else. So a column may be of another kind in each block.
        """
        paths = structure.paths()
        for row in rows:
            if len(row) != len(paths):
                raise UsageError(f"{structure} has {len(paths)} leaves, not {len(row)}.")
        leaves = zip(*rows, strict=True) if rows else ((),) * len(paths)
        made = [stack([as_leaf(v, path) for v in values]) for values, path in zip(leaves, paths, strict=True)]
        return cls._trusted(structure, made, len(rows))

    @classmethod
    def from_elements(cls, elements: Sequence[Any]) -> Block:
        """Stack elements, one at least, which must all have the structure of the first."""
        if not elements:
            raise UsageError("Block.from_elements: without an element, the structure is not known.")
        structure = flatten(elements[0])[1]
        return cls.from_rows(structure, [structure.leaves_of(element) for element in elements])

    @classmethod
    def concat(cls, blocks: Sequence[Block]) -> Block:
        """The rows of all blocks. They must have one structure; columns of different kinds are reconciled."""
        if not blocks:
            raise UsageError("Block.concat: without a block, the structure is not known.")
        first = blocks[0]
        for block in blocks:
            if block.structure != first.structure:
                raise UsageError(f"Block.concat: {block.structure} does not fit {first.structure}.")
        if len(blocks) == 1:
            return first
        parts = zip(*(block.columns for block in blocks), strict=True)
        joined = [concat(part) for part in parts]
        return cls._trusted(first.structure, joined, sum(block.rows for block in blocks))

    def slice(self, begin: int, end: int) -> Block:
        """Rows begin to end, without a copy."""
        if not 0 <= begin <= end <= self.rows:
            raise UsageError(f"Block.slice({begin}, {end}): the block has rows 0 to {self.rows}.")
        picks = self._picks
        if picks is not None and not picks.begun:
            return Block._picked(self.structure, picks.at(slice(begin, end)))
        cut = [columns_.slice_of(column, begin, end) for column in self.columns]
        return Block._trusted(self.structure, cut, end - begin)

    def take(self, indices: Any) -> Block:
        """The rows at `indices`, in their order; a row may come more than once."""
        given = np.asarray(indices)
        if given.ndim != 1 or (given.dtype.kind not in "iu" and given.size):
            raise UsageError(
                "Block.take: indices must be integers in one dimension, "
                f"not {given.dtype} of shape {given.shape}."
            )
        wanted = np.ascontiguousarray(given, np.int64)
        picks = self._picks
        try:
            if picks is not None:
                columns_.check_indices(wanted, self.rows)
                return Block._picked(self.structure, picks.at(wanted))
            taken = [columns_.take(column, wanted) for column in self.columns]
            if not taken:
                columns_.check_indices(wanted, self.rows)
        except IndexError as error:
            raise UsageError(f"Block.take: {error}; rows are counted from 0.") from None
        return Block._trusted(self.structure, taken, len(wanted))

    def begin(self) -> None:
        """Have picked rows copied in other threads, where that is possible: they will be looked at soon."""
        if self._picks is not None:
            self._picks.begin()

    def copied(self) -> Block:
        """The same rows, without those that they were picked among."""
        picks = self._picks
        return self if picks is None else picks.sources.copied(picks.picks)

    def frozen(self) -> Block:
        """The same rows, which cannot be changed in place."""
        return Block._trusted(self.structure, list(map(columns_.frozen, self.columns)), self.rows)

    def sample(self) -> tuple[Column, ...]:
        """Columns of the same kinds, with other rows: of those that were only picked yet, none is copied."""
        picks = self._picks
        if picks is None:
            return self.columns
        source = picks.sources.sources[0]
        return source.head(1) if isinstance(source, Table) else source.columns

    def row(self, index: int) -> Any:
        """One element."""
        if not 0 <= index < self.rows:
            raise UsageError(f"Block.row({index}): the block has {self.rows} rows, counted from 0.")
        return self.structure.unflatten([columns_.row_of(column, index) for column in self.columns])

    def __iter__(self) -> Iterator[Any]:
        """The elements, one by one."""
        if not self.columns:
            return (self.structure.unflatten(()) for _ in range(self.rows))
        return self.structure.unflatten_rows([columns_.iter_rows(column) for column in self.columns])

    def __len__(self) -> int:
        return self.rows

    def as_batch(self) -> Any:
        """All elements as one: the tree of arrays and Ragged that `batch` hands out, aligned."""
        return self.structure.unflatten([columns_.as_batch(columns_.aligned(c)) for c in self.columns])

    @property
    def nbytes(self) -> int:
        """Of rows that were only picked yet, an estimate."""
        picks = self._picks
        if picks is not None:
            return self.rows * picks.sources.row_bytes
        return sum(map(columns_.nbytes, self.columns))

    @property
    def spec(self) -> Any:
        """The spec of an element: the narrowest that all rows fit."""
        return self.structure.unflatten([columns_.row_spec(column) for column in self.columns])

    def equals(self, other: object) -> bool:
        """Has the other the same rows, bit for bit, in the same kinds of columns?"""
        return (
            isinstance(other, Block)
            and (self.structure, self.rows) == (other.structure, other.rows)
            and all(map(columns_.same, self.columns, other.columns))
        )

    def __repr__(self) -> str:
        return f"<Block, {self.rows} rows: {self.spec}>"


class Sources:
    """Blocks and tables of one structure, out of which rows are picked. More may be added at any time.

    >>> sources = Sources()
    >>> tens = sources.add(Block.from_elements([10, 11]))
    >>> twenties = sources.add(Block.from_elements([20, 21]))
    >>> sources.pick(np.array([twenties[0], tens[1], twenties[1]])).as_batch()
    array([20, 11, 21], dtype=int32)
    """

    __slots__ = ("_lock", "_numbers", "_picker", "_ready", "row_bytes", "sources", "structure")

    def __init__(self) -> None:
        self.sources: list[Block | Table] = []
        self._picker = Picker()
        self._ready = 0  # sources that the picker knows
        self._lock = Lock()  # for those two: a block may be looked at in another thread than it was made in
        self.row_bytes = 0
        self.structure: Structure | None = None
        self._numbers: dict[int, int] = {}  # of a source, by its id: `sources` keeps it alive

    def add(self, block: Block | Table, out: Picks | None = None) -> Picks:
        """The picks of its rows, from now on; in `out`, if that is given."""
        if self.structure is None:
            self.structure = block.structure
            self.row_bytes = block.nbytes // max(1, block.rows)
        elif block.structure != self.structure:
            raise UsageError(f"{block.structure} does not fit {self.structure}.")
        picks = None if isinstance(block, Table) else block._picks
        if picks is None:
            if block.rows > MOST_ROWS:
                raise UsageError(f"a block of {block.rows:,} rows is too long to pick rows out of it.")
            return _picks_of(self._number(block), _all_rows(block.rows), out)
        sources = picks.sources.sources
        if len(sources) == 1:
            return _picks_of(self._number(sources[0]), picks.picks, out)
        numbers = np.array([self._number(source) for source in sources])
        renumbered = _native.renumber(picks.picks, numbers)
        if out is None:
            return renumbered
        out[:] = renumbered
        return out

    def _number(self, source: Block | Table) -> int:
        number = self._numbers.get(id(source))
        if number is None:
            number = self._numbers[id(source)] = len(self.sources)
            self.sources.append(source)
        return number

    def only(self, numbers: Indices) -> Sources:
        """Some of the sources, which are numbered anew in that order."""
        some = Sources()
        some.structure, some.row_bytes = self.structure, self.row_bytes
        wanted = numbers.tolist()
        some.sources = [self.sources[number] for number in wanted]
        some._picker, some._ready = self._filled_picker().only(wanted), len(wanted)
        some._numbers = {id(source): number for number, source in enumerate(some.sources)}
        return some

    def _filled_picker(self) -> Picker:
        with self._lock:
            for source in self.sources[self._ready :]:
                self._picker.add(source)
                self._ready += 1
        return self._picker

    def columns(self, picks: Picks) -> tuple[Column, ...]:
        """The columns of `pick`'s block, copied now."""
        return self._filled_picker().pick(picks)

    def begin(self, picks: Picks) -> _native.BegunRows | None:
        """`columns`, in other threads, if it can be done there."""
        return self._filled_picker().begin(picks)

    def copied(self, picks: Picks) -> Block:
        """What `pick` gives, in memory of its own."""
        assert self.structure is not None
        copied = self._filled_picker().copy(picks)
        return (
            Block.of_table(copied)
            if isinstance(copied, Table)
            else Block._trusted(self.structure, copied, len(picks))
        )

    def pick(self, picks: Picks) -> Block:
        """A block of the picked rows. Nothing is copied yet."""
        assert self.structure is not None
        return Block._picked(self.structure, _Picked(self, picks))


_ROWS = np.arange(1 << 14)
_ROWS.flags.writeable = False


def _all_rows(count: int) -> Indices:
    return _ROWS[:count] if count <= len(_ROWS) else np.arange(count)


def _picks_of(source: int, rows: Picks, out: Picks | None) -> Picks:
    # Those of the first source are its rows: where nobody asks for a copy, none is made.
    return rows if source == 0 and out is None else picks_of(source, rows, out)


class _Picked:
    __slots__ = ("begun", "picks", "sources")

    def __init__(self, sources: Sources, picks: Picks) -> None:
        self.sources, self.picks = sources, picks
        self.begun: _native.BegunRows | None = None

    def begin(self) -> None:
        self.begun = self.sources.begin(self.picks)

    def at(self, rows: Any) -> _Picked:
        return _Picked(self.sources, self.picks[rows])

    def columns(self) -> tuple[Column, ...]:
        return tuple(self.begun.finish()) if self.begun else self.sources.columns(self.picks)


def _check(column: Column, rows: int) -> None:
    if not isinstance(column, np.ndarray | Ragged | Bytes | Objects):
        raise UsageError(f"{type(column).__name__} is no column.")
    if isinstance(column, np.ndarray):
        if column.ndim == 0:
            raise UsageError("a column needs a first axis, of rows; this array has no dimensions.")
        if dtype_name(column.dtype) == "string":
            raise UsageError("strings are held in a Bytes column, not in an array of objects.")
    if columns_.length(column) != rows:
        raise UsageError(f"the column has {columns_.length(column)} rows, the block {rows}.")

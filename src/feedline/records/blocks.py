"""TFRecord files -> blocks: decoded by `features`, or the records as they are; in order or by index."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from feedline import _native
from feedline.block import Block, Bytes, Column
from feedline.errors import SchemaError, UsageError
from feedline.records.decode import Features, Plan, plan_of
from feedline.records.faults import placed, to_error
from feedline.records.indexing import FRAMING, Offsets
from feedline.records.known_indexes import Indexes
from feedline.records.open_files import FileBudget
from feedline.records.paths import Files, compression_name, resolve
from feedline.records.reading import OnCorrupt, SkipCount, skips
from feedline.records.same_set import SameSet
from feedline.structure import flatten
from feedline.table import Table

Place = tuple[int, int, int]
"""Where a record begins: the number of its file, the offset of its header, the record's number there."""

_SMALL = 64 << 10  # bytes of a file that is read whole, together with others
_MAX_BLOCK_BYTES = 64 << 20  # records this large make short blocks, whatever `rows` says


class _Whole:
    """The plan of records as they are."""

    def __init__(self) -> None:
        self.structure = flatten(b"")[1]
        self.schema = _native.Schema()
        self.schema.add_whole()
        self.checks_values = False

    def columns(self, rows: int, arrays: list[Any]) -> tuple[Column, ...]:
        data, offsets = arrays[0][:2]
        return (Bytes(data, offsets, (), rows),)

    def block(self, rows: int, arrays: list[Any]) -> Block:
        return Block._trusted(self.structure, self.columns(rows, arrays), rows)


_WHOLE = _Whole()


class BlockSource:
    """Blocks of about `rows` rows, one after another, and the place after the last of them."""

    def __init__(
        self,
        paths: Sequence[str],
        plan: Plan | None,
        *,
        rows: int,
        threads: int,
        compression: str,
        verify: bool,
        skip: bool,
        start: Place = (0, 0, 0),
        block_bytes: int = _MAX_BLOCK_BYTES,
        shared: bool = False,
        as_rows: bool = False,
        budgets: Sequence[FileBudget] = (),
    ) -> None:
        """Without a `plan`, rows are the records' bytes.

        `shared`: one block is made ahead by threads that all such sources share, instead of by `threads` of
        its own. `as_rows`: blocks are tables, where features are of a fixed size, for rows that are picked.
        Files that it has open count against the `budgets`.
        """
        self._plan = plan or _WHOLE
        self._open = _native.ReadAhead if shared else _native.BlockReader
        self._options: dict[str, Any] = {
            "files": [os.fsencode(path) for path in paths],
            "schema": self._plan.schema,
            "rows": rows,
            "threads": threads,
            "verify": verify,
            "skip": skip,
            "compression": compression,
            "block_bytes": block_bytes,
            # Values of a table are seen only when they are picked: too late to say which record is wrong.
            "as_rows": as_rows and not self._plan.checks_values,
            "budgets": [budget.native for budget in budgets],
        }
        self.place = start
        self.skipped = SkipCount()
        self._set = SameSet(paths)
        self._of_set = -1  # files up to this number
        self._reader = self._open(**self._options, start=start)
        self._fault: _native.Fault | None = None
        self._resume: Place = start
        self._singles: _Singles | None = None

    def next(self) -> Block | None:
        """The next block, or None at the end.

        What is damaged raises after the rows in front of it. Asked again, the source goes on after the
        record, or, when the next one cannot be found, with the next file.
        """
        while True:
            if self._singles is not None and (single := self._next_single(self._singles)) is not None:
                return single
            if self._fault is not None:
                break
            item = self._reader.next()
            if item is None:
                return None
            (rows, data, skipped, fault), place, resume = item
            self.skipped.add(skipped)
            begin = self.place
            if place is not None:
                self.place = place
            if fault is not None or self.place[0] > self._of_set:
                self._set.check()
                self._of_set = self.place[0]
            if fault is not None:
                self._fault = fault
                self._resume = self.place if resume is None else resume
            if rows:
                if isinstance(data, _native.RowTable):
                    return Block.of_table(Table(self._plan, data))
                try:
                    return self._plan.block(rows, data)
                except SchemaError:
                    self._singles = _Singles(self._plan, self._options, begin, rows, self.place)
        fault, self._fault = self._fault, None
        self.place = self._resume
        self._reader.close()
        self._reader = self._open(**self._options, start=self.place)
        raise to_error(fault, checked=self._options["verify"])

    def _next_single(self, singles: _Singles) -> Block | None:
        try:
            return singles.next()
        except SchemaError:
            self._set.check()
            raise
        finally:
            self.place = singles.place
            if not singles.left:
                self._singles = None
                singles.close()

    def close(self) -> None:
        self._reader.close()
        if self._singles is not None:
            self._singles.close()


def begin_small(
    paths: Sequence[str],
    plan: Plan | None,
    *,
    compression: str,
    verify: bool,
    as_rows: bool,
    budgets: Sequence[FileBudget] = (),
) -> Callable[[], tuple[Block | None, list[tuple[int, int] | None]]]:
    """Begin to read small files together, in the background. What it returns waits for them.

    It gives a block with the rows of all, and where those of each begin and end: None for files that are
    large, compressed, missing or in any way wrong, which a BlockSource must read.
    """
    made = plan or _WHOLE
    none: tuple[None, list[tuple[int, int] | None]] = None, [None] * len(paths)
    try:
        same_set = SameSet(paths)
        files = [os.fsencode(path) for path in paths]
    except ValueError:  # a UsageError, or a name that cannot be encoded
        return lambda: none
    native = _native.SmallFiles(
        files=files,
        schema=made.schema,
        verify=verify,
        compression=compression,
        block_bytes=_SMALL,
        as_rows=as_rows and not made.checks_values,
        budgets=[budget.native for budget in budgets],
    )

    def wait() -> tuple[Block | None, list[tuple[int, int] | None]]:
        (rows, data, _, _), places = native.take()
        try:
            same_set.check()
            if not rows:
                return None, places
            if isinstance(data, _native.RowTable):
                return Block.of_table(Table(made, data)), places
            return made.block(rows, data), places
        except (UsageError, SchemaError):
            return none

    return wait


class TurnSource:
    """Files by turns, `turn` records of each, up to where one ends or is in any way wrong."""

    def __init__(
        self,
        files: Sequence[tuple[str, Place, int]],
        plan: Plan | None,
        *,
        turn: int,
        rows: int,
        compression: str,
        verify: bool,
        block_bytes: int,
        as_rows: bool,
        budgets: Sequence[FileBudget] = (),
    ) -> None:
        """Each file with the place where to begin, and how many records to pass over there."""
        self._plan = plan or _WHOLE
        self._set = SameSet(path for path, _, _ in files)
        self._native: _native.TurnReader | None = _native.TurnReader(
            files=[(os.fsencode(path), place, drop) for path, place, drop in files],
            schema=self._plan.schema,
            rows=rows,
            turn=turn,
            verify=verify,
            compression=compression,
            block_bytes=block_bytes,
            as_rows=as_rows and not self._plan.checks_values,
            budgets=[budget.native for budget in budgets],
        )
        self.places: list[Place] | None = None  # where each file goes on, once there was a block

    def next(self) -> Block | None:
        """The next block, or None where another source must go on from `places`, with each file alone."""
        item = None if self._native is None else self._native.next()
        if item is None:
            self.close()
            return None
        (rows, data, _, _), places = item
        try:
            if self.places is None:
                self._set.check()
            if isinstance(data, _native.RowTable):
                block = Block.of_table(Table(self._plan, data))
            else:
                block = self._plan.block(rows, data)
        except (UsageError, SchemaError):
            self.close()
            return None
        self.places = places
        return block

    def close(self) -> None:
        if self._native is not None:
            self._native.close()
            self._native = None


class _Singles:
    """Reads the rows of a block again one by one, so that a row that does not fit costs no other."""

    def __init__(
        self, plan: Plan | _Whole, options: Mapping[str, Any], begin: Place, rows: int, end: Place
    ) -> None:
        self._plan = plan
        self._paths = options["files"]
        self._reader = _native.BlockReader(**{**options, "rows": 1, "threads": 1}, start=begin)
        self._end = end
        self.left = rows
        self.place = begin

    def next(self) -> Block | None:
        """The next row, or None if the file was cut short since it was first read."""
        rows = 0
        while not rows:  # what is skipped comes as blocks without rows
            item = self._reader.next()
            if item is None or item[0][3] is not None:
                self.left, self.place = 0, self._end
                return None
            (rows, data, _, _), place, _ = item
        assert place is not None
        before, self.place = self.place, place
        self.left -= 1
        if not self.left:
            self.place = self._end
        try:
            return self._plan.block(rows, data)
        except SchemaError as error:
            record = place[2] - 1
            # After records that were skipped, the offset is not known.
            offset = before[1] if before == (place[0], before[1], record) else None if record else 0
            raise placed(
                error, path=os.fsdecode(self._paths[place[0]]), record=record, offset=offset
            ) from None

    def close(self) -> None:
        self._reader.close()


def read_blocks(
    files: Files,
    features: Features,
    *,
    rows: int = 256,
    threads: int = 1,
    compression: str | None = "auto",
    verify: bool = True,
    on_corrupt: OnCorrupt = "raise",
) -> Iterator[Block]:
    """The Examples of the files, one after another, decoded into blocks of `rows` rows.

    The last block may be shorter, and so may one with skipped records or with more than 64 MB of them. With
    several `threads` they work side by side, outside of Python's lock, and the order is the same.

    With `on_corrupt="skip"` damaged records are dropped, and one warning at the end counts them. Records that
    are sound, but do not fit `features`, always raise: they would all be dropped.
    """
    if rows < 1:
        raise UsageError(f"read_blocks(rows={rows}): a block has 1 row at least.")
    if threads < 1:
        raise UsageError(f"read_blocks(threads={threads}): 1 thread at least is needed.")
    source = BlockSource(
        resolve(files),
        plan_of(features),
        rows=rows,
        threads=threads,
        compression=compression_name(compression),
        verify=verify,
        skip=skips(on_corrupt),
    )
    return _blocks(source)


def _blocks(source: BlockSource) -> Iterator[Block]:
    try:
        while (block := source.next()) is not None:
            yield block
        source.skipped.warn()
    finally:
        source.close()


class PointSource:
    """The records of plain files in any order, by the indexes beside them."""

    def __init__(
        self,
        paths: Sequence[str],
        same_set: SameSet,
        indexes: Sequence[Offsets],
        plan: Plan | None,
        verify: bool,
    ) -> None:
        self._plan = plan or _WHOLE
        self._set = same_set
        self._verify = verify
        self._paths = paths
        self._reader = _native.PointReader([os.fsencode(path) for path in paths], self._plan.schema, verify)
        # One after another, each with the end of its last record.
        self._offsets = np.concatenate(indexes)
        self._firsts = np.cumsum([0, *(len(index) - 1 for index in indexes)])

    @classmethod
    def of(cls, paths: Sequence[str], plan: Plan | None, *, verify: bool) -> PointSource | None:
        """None unless every file has an index that is true."""
        same_set = SameSet(paths)
        known = Indexes()
        indexes = []
        for path in paths:
            offsets = known.of(path)
            if offsets is None:
                return None
            indexes.append(offsets)
        return cls(paths, same_set, indexes, plan, verify)

    def __len__(self) -> int:
        return int(self._firsts[-1])

    def take(self, indices: np.ndarray[Any, np.dtype[np.int64]], budgets: Sequence[FileBudget] = ()) -> Block:
        """The records at `indices`, counted over all files."""
        files = np.searchsorted(self._firsts, indices, side="right") - 1
        places = indices + files
        offsets = self._offsets[places]
        sizes = self._offsets[places + 1] - offsets - np.uint64(FRAMING)
        native = [budget.native for budget in budgets]
        decoded = self._reader.read(files, offsets, sizes, indices - self._firsts[files], native)
        rows, arrays, _, fault = decoded
        self._set.check()
        if fault is not None:
            raise to_error(fault, checked=self._verify)
        try:
            return self._plan.block(rows, arrays)
        except SchemaError as error:
            if len(indices) > 1:
                for index in indices:
                    self.take(np.array([index]), budgets)
            path, number = self._paths[files[0]], int(indices[0] - self._firsts[files[0]])
            raise placed(error, path=path, record=number, offset=int(offsets[0])) from None

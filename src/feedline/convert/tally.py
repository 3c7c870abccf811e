"""The features of all records that are written, counted on the way."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from feedline.column import Bytes, Ragged
from feedline.convert.batch import Batch, Column
from feedline.records.encode import kind_of
from feedline.records.features import Feature, FixedLenFeature, VarLenFeature


@dataclass
class Seen:
    """One feature."""

    kind: str
    shape: tuple[int, ...] | None
    """None: records have different numbers of values, or some have none."""
    records: int = 0
    """Those that have a value."""

    def feature(self) -> Feature:
        """What reads it."""
        return VarLenFeature(self.kind) if self.shape is None else FixedLenFeature(self.shape, self.kind)


class Tally:
    def __init__(self) -> None:
        self.records = 0
        self.seen: dict[str, Seen] = {}

    def add(self, batch: Batch) -> None:
        for key, column in batch.columns.items():
            shape, having = _extent(column, batch.rows)
            seen = self.seen.setdefault(key, Seen(_kind(column), shape))
            seen.records += having
            if seen.shape != shape:
                seen.shape = None
        self.records += batch.rows


def _kind(column: Column) -> str:
    if isinstance(column, Ragged):
        return _kind(column._values)  # type: ignore[arg-type]  # readers nest no Ragged
    return "string" if isinstance(column, Bytes) else kind_of(column.dtype) or column.dtype.name


def _extent(column: Column, rows: int) -> tuple[tuple[int, ...] | None, int]:
    """The shape of every row, and how many have a value."""
    if isinstance(column, Bytes):
        return (), rows
    if not isinstance(column, Ragged):
        return column.shape[1:], rows
    lengths = column.lengths
    low, high = int(lengths.min()), int(lengths.max())
    shape = None if low != high or not high else () if high == 1 else (high,)
    return shape, int(np.count_nonzero(lengths))

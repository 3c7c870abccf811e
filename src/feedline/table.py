"""A Table: rows as the native core read them, for steps that pick rows out of many blocks.

Columns are made only of the rows that are picked, and with one copy.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from feedline import _native
from feedline.column import Column
from feedline.structure import Structure


class Maker(Protocol):
    """What the rows are: `records.decode.Plan`."""

    @property
    def schema(self) -> _native.Schema: ...
    @property
    def structure(self) -> Structure: ...
    def columns(self, rows: int, arrays: list[Any]) -> tuple[Column, ...]:
        """The columns of the native core's arrays."""
        ...


class Table:
    __slots__ = ("maker", "native")

    def __init__(self, maker: Maker, native: _native.RowTable) -> None:
        self.maker = maker  # the same for all tables that can be picked from together
        self.native = native

    @property
    def structure(self) -> Structure:
        return self.maker.structure

    @property
    def rows(self) -> int:
        return len(self.native)

    @property
    def nbytes(self) -> int:
        return self.native.nbytes

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.head(self.rows)

    def head(self, rows: int) -> tuple[Column, ...]:
        """The columns of the first rows."""
        picker = _native.TablePicker(self.maker.schema)
        picker.add(self.native)
        return self.maker.columns(rows, picker.pick(np.arange(rows)))

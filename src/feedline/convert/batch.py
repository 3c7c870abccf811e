"""What the readers of all formats give: some rows as columns, and how they refuse what is no row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy.typing as npt

from feedline.column import Bytes, Ragged
from feedline.errors import SchemaError

Column: TypeAlias = npt.NDArray[Any] | Bytes | Ragged

# A batch ends with whichever comes first, so that memory stays small when rows are large.
BATCH_ROWS = 1024
BATCH_BYTES = 4 << 20


@dataclass(frozen=True)
class Batch:
    """Rows of one source. A row of a Ragged that is empty says that the record has no such feature."""

    path: str
    columns: Mapping[str, Column]
    rows: int
    read: int
    """Bytes of the source that these rows take, for who shows progress."""
    passed_over: int = 0
    """Files beside these rows that are none of the format's."""


def refusal(
    path: str, what: str, *, line: int | None = None, column: str | None = None, remedy: str
) -> SchemaError:
    """
    >>> print(refusal("a.csv", "'old' is no int64", line=7, column="age", remedy="Write a number."))
    a.csv: line 7: column 'age': 'old' is no int64.
      Write a number.
    """
    place = "" if line is None else f"line {line:,}: "
    place += "" if column is None else f"column {column!r}: "
    return SchemaError(place + what, path=path, remedy=remedy)

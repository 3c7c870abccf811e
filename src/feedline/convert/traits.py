"""What a column of text or JSON holds, as its first rows tell; and columns of values that are so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from feedline.column import Bytes, Ragged
from feedline.convert.batch import Column


@dataclass
class Trait:
    kind: str | None = None
    """int64, float32 or string; None where there was no value."""
    is_list: bool = False
    """A row has any number of values."""
    is_optional: bool = False
    """A row may have none."""

    def column(self, values: Sequence[Any]) -> Column:
        """A value for each row, or None for none. OverflowError if a number does not fit its kind."""
        if not (self.is_list or self.is_optional):
            return self._flat(values)
        rows = [value if isinstance(value, list) else () if value is None else (value,) for value in values]
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(row) for row in rows], out=offsets[1:])
        return Ragged._trusted(self._flat([value for row in rows for value in row]), offsets)

    def _flat(self, values: Sequence[Any]) -> npt.NDArray[Any] | Bytes:
        if self.kind == "string":
            return Bytes.of([value.encode() for value in values])
        if self.kind == "int64":
            return np.array(values, np.int64)
        wide = np.array(values, np.float64)
        with np.errstate(over="ignore"):
            narrow = wide.astype(np.float32)
        if (np.isinf(narrow) & np.isfinite(wide)).any():
            raise OverflowError
        return narrow

    def too_large(self) -> tuple[str, str]:
        """What is wrong with a value that gave the OverflowError, and what to do."""
        if self.kind == "int64":
            return (
                "does not fit int64, the only integer of an Example",
                "Store it as text: with a letter before it.",
            )
        return "does not fit float32, the only float of an Example", "Scale the values."


def infer_more(rows: int) -> str:
    """What to do when a later row is not as the first ones."""
    return (
        f"What a column holds was told from the first {rows:,} rows. To look at more of them:  "
        f"feedline convert --infer-from {rows * 100}"
    )

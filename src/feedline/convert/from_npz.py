"""npz: a feature for each array, a record for each row of them. They keep their dtype and shape.

The arrays are read side by side, some rows at a time, whatever their size; one in Fortran order as a whole.
"""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from feedline.convert.batch import BATCH_BYTES, BATCH_ROWS, Batch, refusal
from feedline.convert.damage import located
from feedline.errors import SchemaError
from feedline.records.encode import kind_of
from feedline.records.features import ARRAY_DTYPES

SUFFIXES = (".npz",)


class _Array:
    """One of the file, read from its first row to its last."""

    def __init__(self, path: str, name: str, file: IO[bytes]) -> None:
        self.path, self.name, self._file = path, name, file
        version = npy.read_magic(file)
        # Version 3 is for names of fields that are no Latin-1; arrays with fields are refused in any case.
        header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        self.shape, is_fortran, self.dtype = header(file)
        if min(self.shape, default=0) < 0:
            raise ValueError(f"{name} has the shape {self.shape}")
        self._check()
        self._whole = self._read_fortran() if is_fortran and len(self.shape) > 1 else None
        self._at = 0

    @property
    def row_bytes(self) -> int:
        return self.dtype.itemsize * math.prod(self.shape[1:])

    def next(self, rows: int) -> npt.NDArray[Any]:
        self._at += rows
        if self._whole is not None:
            return self._whole[self._at - rows : self._at]
        return self._read(rows * self.row_bytes).reshape(rows, *self.shape[1:])

    def end(self) -> None:
        """Reads past the last byte: only there the checksum is looked at."""
        if self._file.read(1):
            raise ValueError(f"{self.name} goes on after its last row")

    def _read(self, size: int) -> npt.NDArray[Any]:
        data = self._file.read(size)
        if len(data) < size:
            raise EOFError(f"{self.name} ends before its last row")
        return np.frombuffer(data, self.dtype)

    def _read_fortran(self) -> npt.NDArray[Any]:
        size = self.dtype.itemsize * math.prod(self.shape)
        return self._read(size).reshape(self.shape, order="F")

    def _check(self) -> None:
        if self.dtype.hasobject:
            raise self._refusal(
                "it holds Python objects, and those are pickled: to load them could run any code",
                "Save it with a dtype of numbers or strings; rows of different lengths as the values of all "
                "rows and an array of their lengths.",
            )
        if kind_of(self.dtype) is None and self.dtype.name not in ARRAY_DTYPES:
            raise self._refusal(
                f"it holds {self.dtype}, and an Example numbers and strings",
                "Save it as one of these: times as array.astype('int64'), fields as arrays of their own.",
            )
        if not self.shape:
            raise self._refusal("it is a single value, and has no rows", "Save the file without it.")

    def _refusal(self, what: str, remedy: str) -> SchemaError:
        return refusal(self.path, f"array {self.name!r}: {what}", remedy=remedy)


def read(paths: Sequence[str], infer_from: int) -> Iterator[Batch]:
    for path in paths:
        with located(path, "npz"), ExitStack() as stack:
            yield from _read_one(path, stack)


def _read_one(path: str, stack: ExitStack) -> Iterator[Batch]:
    archive = stack.enter_context(zipfile.ZipFile(path))
    arrays = []
    for member in archive.namelist():
        file = stack.enter_context(archive.open(member))
        arrays.append(_Array(path, member.removesuffix(".npy"), file))
    rows = _rows(path, arrays)
    step = max(1, min(BATCH_ROWS, BATCH_BYTES // max(1, sum(array.row_bytes for array in arrays))))
    size = os.path.getsize(path)
    for begin in range(0, rows, step):
        count = min(step, rows - begin)
        columns = {array.name: array.next(count) for array in arrays}
        if begin + count == rows:
            for array in arrays:
                array.end()
        yield Batch(path, columns, count, size * count // rows)


def _rows(path: str, arrays: list[_Array]) -> int:
    if not arrays:
        raise refusal(path, "it holds no arrays", remedy="Save some:  np.savez(path, x=x, y=y)")
    first, *rest = arrays
    for array in rest:
        if array.shape[0] != first.shape[0]:
            raise refusal(
                path,
                f"array {array.name!r} has {array.shape[0]:,} rows, and {first.name!r} {first.shape[0]:,}",
                remedy="A record has a row of each; save arrays of another length in a file of their own.",
            )
    return first.shape[0]

"""parquet, by pyarrow: a feature for each column of numbers, booleans, strings, or lists of them.

Numbers are stored as int64 and float32, whatever their width, as those of csv and jsonl are. A null leaves
the feature out of the record. The memory it takes is that of the largest row group.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from feedline.column import Bytes, Ragged
from feedline.convert.batch import BATCH_BYTES, BATCH_ROWS, Batch, Column, refusal
from feedline.convert.damage import located
from feedline.errors import MissingDependency, SchemaError, UsageError
from feedline.records.encode import list_values

SUFFIXES = (".parquet",)


def read(paths: Sequence[str], infer_from: int) -> Iterator[Batch]:
    optional: set[str] = set()
    for path in paths:
        with _opened(path) as file:
            optional |= _with_nulls(file)
    for path in paths:
        with _opened(path) as file:
            yield from _batches(path, file, optional)


def _batches(path: str, file: Any, optional: set[str]) -> Iterator[Batch]:
    names = file.schema_arrow.names
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise refusal(path, f"two columns are named {twice!r}", remedy="Give each a name of its own.")
    rows, size = file.metadata.num_rows, os.path.getsize(path)
    for batch in _record_batches(file):
        columns = {
            name: _column(path, name, array, name in optional)
            for name, array in zip(names, batch.columns, strict=True)
        }
        found = {name: column for name, column in columns.items() if column is not None}
        yield Batch(path, found, batch.num_rows, size * batch.num_rows // rows)


def _record_batches(file: Any) -> Iterator[Any]:
    # By the group, because iter_batches reads ahead in all the groups it is given.
    for number in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(number)
        row_bytes = group.total_byte_size // max(1, group.num_rows)
        step = max(1, min(BATCH_ROWS, BATCH_BYTES // max(1, row_bytes)))
        yield from file.iter_batches(step, row_groups=[number])


def _with_nulls(file: Any) -> set[str]:
    """The columns that have some, or do not say that they have none."""
    found = set()
    for number in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(number)
        for at in range(group.num_columns):
            column = group.column(at)
            known = column.statistics is not None and column.statistics.has_null_count
            if not known or column.statistics.null_count:
                found.add(column.path_in_schema)
    return found


def _column(path: str, name: str, array: Any, is_optional: bool) -> Column | None:
    """None of one that is null in every row, and has no kind."""
    types = _pyarrow()[0].types
    if types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if types.is_null(array.type):
        return None
    if types.is_list(array.type) or types.is_large_list(array.type) or types.is_fixed_size_list(array.type):
        lengths = array.value_lengths().fill_null(0)
        values = array.flatten()  # without what lies under a null
        if values.null_count:
            remedy = "Leave it out of the list, or put a number in its place."
            raise refusal(path, "a list of it holds a null", column=name, remedy=remedy)
    elif is_optional or array.null_count:
        lengths, values = array.is_valid(), array.drop_null()
    else:
        return _values(path, name, array)
    offsets = np.zeros(len(array) + 1, np.int64)
    np.cumsum(lengths.to_numpy(zero_copy_only=False), out=offsets[1:])
    return Ragged._trusted(_values(path, name, values), offsets)


def _values(path: str, name: str, array: Any) -> npt.NDArray[Any] | Bytes:
    pa = _pyarrow()[0]
    kind, types = array.type, pa.types
    if types.is_dictionary(kind):
        return _values(path, name, array.dictionary_decode())
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind):
        try:
            return list_values(name, array.to_numpy(zero_copy_only=False))
        except UsageError as error:
            raise SchemaError(str(error).removesuffix("."), path=path) from None
    if _is_string(types, kind):
        return Bytes.of(array.cast(pa.large_binary()).to_pylist())
    raise refusal(
        path,
        f"it holds {kind}, and an Example numbers, strings and lists of them",
        column=name,
        remedy="Save it as one of these: times as int64, decimals as float, fields of a struct as columns.",
    )


def _is_string(types: Any, kind: Any) -> bool:
    names = "string large_string string_view binary large_binary binary_view fixed_size_binary"
    return any(getattr(types, f"is_{name}")(kind) for name in names.split())


@contextmanager
def _opened(path: str) -> Iterator[Any]:
    parquet = _pyarrow()[1]
    with located(path, "parquet"), open(path, "rb") as source, parquet.ParquetFile(source) as file:
        yield file


def _pyarrow() -> tuple[Any, Any]:
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ModuleNotFoundError as error:
        if error.name != "pyarrow":
            raise  # it is installed, and lacks something itself
        raise MissingDependency(
            "parquet files are read by pyarrow, which is not installed.\n"
            "  To install it:  pip install 'feedline[parquet]'",
            name="pyarrow",
        ) from None

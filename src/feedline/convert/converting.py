"""Rows of any format into a sharded set of TFRecords, all of them or none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, NoReturn

from feedline.column import Ragged, iter_rows
from feedline.convert.batch import Batch, Column, refusal
from feedline.convert.formats import INFER_FROM, Format
from feedline.convert.tally import Seen, Tally
from feedline.errors import SchemaError, UsageError
from feedline.write import ShardedWriter


@dataclass(frozen=True)
class Conversion:
    records: int
    features: dict[str, Seen]
    passed_over: int
    """Files that are none of the format's."""


def convert(
    format: Format,
    paths: Sequence[str],
    directory: str,
    *,
    infer_from: int = INFER_FROM,
    progress: Callable[[int], None] | None = None,
    **writing: Any,
) -> Conversion:
    """`writing` is what ShardedWriter takes. `progress` is called with the number of bytes read so far."""
    tally = Tally()
    batches = format.read(paths, infer_from)
    # What is wrong from the start is told before there is a directory.
    ahead = list(islice(batches, 1))
    passed_over = read = 0
    with ShardedWriter(directory, **writing) as writer:
        for batch in chain(ahead, batches):
            passed_over += batch.passed_over
            if batch.rows:
                _write(writer, batch)
                tally.add(batch)
            read += batch.read
            if progress is not None:
                progress(read)
        if not tally.records:
            raise refusal(paths[0], "there are no records in it", remedy="Give sources that have some.")
    return Conversion(tally.records, tally.seen, passed_over)


def _write(writer: ShardedWriter, batch: Batch) -> None:
    try:
        if any(isinstance(column, Ragged) and not column.lengths.all() for column in batch.columns.values()):
            for row in _rows(batch.columns):
                writer.write(row)
        else:
            writer.write_batch(batch.columns)
    except (SchemaError, UsageError) as error:
        _locate(batch.path, error)


def _rows(columns: Mapping[str, Column]) -> Iterator[dict[str, Any]]:
    """Row by row, because a batch cannot leave a feature out of some.

    An empty list is without a kind, as if it were not there, and TensorFlow takes the default of its
    FixedLenFeature for it. For an empty int64_list, which a Ragged gives, it would raise.
    """
    for values in zip(*map(_entries, columns.values()), strict=True):
        yield dict(zip(columns, values, strict=True))


def _entries(column: Column) -> Iterator[Any]:
    rows = iter_rows(column)
    return (row if len(row) else [] for row in rows) if isinstance(column, Ragged) else rows


def _locate(path: str, error: SchemaError | UsageError) -> NoReturn:
    """Writers do not know where an example comes from."""
    if isinstance(error, UsageError):
        raise SchemaError(str(error).removesuffix("."), path=path) from None
    remedy = "The records of one set are alike. Convert sources that differ into directories of their own."
    raise SchemaError(error.what, path=path, feature=error.feature, remedy=remedy) from None

"""The lines of a text file in UTF-8, with their numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

from feedline.convert.batch import BATCH_BYTES, BATCH_ROWS, refusal

LONGEST = 256 << 20  # bytes; what has no line ends is not read into memory as a whole

_BOM = b"\xef\xbb\xbf"
_Row = TypeVar("_Row")


class Lines:
    """Iterate over it once. `number` and `read` say how far that is."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.number = 0
        self.read = 0

    def __iter__(self) -> Iterator[str]:
        with open(self.path, "rb") as file:
            while line := file.readline(LONGEST + 1):
                self.number += 1
                self.read += len(line)
                yield self._decoded(line.removeprefix(_BOM) if self.number == 1 else line)

    def _decoded(self, line: bytes) -> str:
        if len(line) > LONGEST:
            raise refusal(
                self.path,
                f"it is longer than {LONGEST:,} bytes",
                line=self.number,
                remedy="Give text with a record on each line.",
            )
        try:
            return line.decode()
        except UnicodeDecodeError as error:
            raise refusal(
                self.path,
                f"byte {error.start + 1:,} of it is no UTF-8",
                line=self.number,
                remedy=f"If it is Latin-1:  iconv -f LATIN1 -t UTF-8 {self.path} > utf-8.txt",
            ) from None


def in_batches(rows: Iterable[_Row], lines: Lines) -> Iterator[list[_Row]]:
    """The rows that were made of these lines, some at a time."""
    batch: list[_Row] = []
    end = BATCH_BYTES
    for row in rows:
        batch.append(row)
        if len(batch) == BATCH_ROWS or lines.read >= end:
            yield batch
            batch = []
            end = lines.read + BATCH_BYTES
    if batch:
        yield batch


def first(batches: Iterable[list[_Row]], count: int) -> Iterator[list[_Row]]:
    """So many rows, still in batches."""
    for batch in batches:
        yield list(islice(batch, count))
        count -= len(batch)
        if count <= 0:
            return

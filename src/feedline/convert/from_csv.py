"""csv: a line of names, and a record in each row after it.

A column is int64 if its cells are integers, else float32 if they are numbers, else string; its first
`infer_from` cells say so. An empty cell is an empty string among strings, and no value among numbers.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from feedline.convert.batch import Batch, Column, refusal
from feedline.convert.lines import LONGEST, Lines, first, in_batches
from feedline.convert.traits import Trait, infer_more
from feedline.errors import SchemaError

SUFFIXES = (".csv",)

_PARSERS: dict[str, Callable[[str], Any]] = {"int64": int, "float32": float}


class _Table:
    """The rows of a file, with the number of the line where each begins."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.lines = Lines(path)
        # Its limit is the process's, and 128 KB: too short for a text, or an image in base64.
        csv.field_size_limit(LONGEST)
        self._reader = csv.reader(self.lines, strict=True)
        self._line = 1
        self.names = self._header()

    def __iter__(self) -> Iterator[tuple[int, list[str]]]:
        while (cells := self._next()) is not None:
            if len(cells) == len(self.names):
                yield self._line, cells
            elif cells:  # a line with nothing on it is passed over
                raise self._refusal(
                    f"it has {len(cells):,} cells, and the line of names {len(self.names):,}",
                    'Cells that hold a comma or a line end are quoted: "a, b".',
                )

    def _next(self) -> list[str] | None:
        self._line = self._reader.line_num + 1
        try:
            return next(self._reader, None)
        except csv.Error as error:
            remedy = (
                'A cell with a quote, a comma or a line end is quoted, its own quotes doubled: "5"" pipe".'
            )
            raise self._refusal(f"it is no csv: {error}", remedy) from None

    def _header(self) -> list[str]:
        names = self._next()
        remedy = "The first line gives each column a name of its own, such as:  age,height,city"
        if not names:
            raise self._refusal("there is no line of names", remedy)
        if _are("float32", names):
            raise self._refusal(f"it holds numbers ({', '.join(names[:3])} ...), no names", remedy)
        for at, name in enumerate(names):
            if not name:
                raise self._refusal(f"column {at + 1:,} has no name", remedy)
            if name in names[:at]:
                raise self._refusal(f"two columns are named {name!r}", remedy)
        return names

    def _refusal(self, what: str, remedy: str) -> SchemaError:
        return refusal(self.path, what, line=self._line, remedy=remedy)


def read(paths: Sequence[str], infer_from: int) -> Iterator[Batch]:
    traits = _infer(paths, infer_from)
    for path in paths:
        table = _Table(path)
        if set(table.names) != set(traits):
            differ = sorted(set(table.names) ^ set(traits))
            raise refusal(
                path,
                f"its columns are not those of {paths[0]}: {', '.join(map(repr, differ))} "
                f"{'is' if len(differ) == 1 else 'are'} in one of them only",
                line=1,
                remedy="Convert them into directories of their own, or give them the same columns.",
            )
        before = 0
        for rows in in_batches(table, table.lines):
            numbers, cells = zip(*rows, strict=True)
            by_name = dict(zip(table.names, zip(*cells, strict=True), strict=True))
            columns = {
                name: _column(path, name, trait, by_name[name], numbers, infer_from)
                for name, trait in traits.items()
            }
            yield Batch(path, columns, len(rows), table.lines.read - before)
            before = table.lines.read


def _infer(paths: Sequence[str], infer_from: int) -> dict[str, Trait]:
    """By the name of the column, in the order of the first file."""
    traits: dict[str, Trait] = {}
    for path in paths:
        table = _Table(path)
        traits = traits or {name: Trait() for name in table.names}
        for rows in first(in_batches(table, table.lines), infer_from):
            infer_from -= len(rows)
            for name, cells in zip(table.names, zip(*(cells for _, cells in rows), strict=True), strict=True):
                if name in traits:  # or the file will be refused
                    _widen(traits[name], cells)
        if infer_from <= 0:
            break
    for trait in traits.values():
        trait.kind = trait.kind or "string"
        trait.is_optional &= trait.kind != "string"
    return traits


def _widen(trait: Trait, cells: Sequence[str]) -> None:
    """To one that these cells have, too."""
    filled = [cell for cell in cells if cell]
    trait.is_optional |= len(filled) < len(cells)
    if filled and trait.kind != "string":
        kinds = ["int64", "float32"] if trait.kind != "float32" else ["float32"]
        trait.kind = next((kind for kind in kinds if _are(kind, filled)), "string")


def _are(kind: str, cells: Sequence[str]) -> bool:
    try:
        _numbers(kind, cells)
    except ValueError:
        return False
    return True


def _numbers(kind: str, cells: Sequence[str]) -> list[Any]:
    text = "".join(cells)
    if "_" in text or not text.isascii():
        raise ValueError  # Python takes 1_000 for a number; nobody else does
    return list(map(_PARSERS[kind], cells))


def _column(
    path: str, name: str, trait: Trait, cells: Sequence[str], lines: Sequence[int], infer_from: int
) -> Column:
    try:
        return _fitted(trait, cells)
    except (ValueError, OverflowError):
        for line, cell in zip(lines, cells, strict=True):
            _check(path, name, trait, cell, line, infer_from)
        raise


def _fitted(trait: Trait, cells: Sequence[str]) -> Column:
    assert trait.kind is not None
    if trait.kind == "string":
        return trait.column(cells)
    if not trait.is_optional:
        return trait.column(_numbers(trait.kind, cells))
    numbers = iter(_numbers(trait.kind, [cell for cell in cells if cell]))
    return trait.column([next(numbers) if cell else None for cell in cells])


def _check(path: str, name: str, trait: Trait, cell: str, line: int, infer_from: int) -> None:
    try:
        _fitted(trait, [cell])
    except ValueError:
        what = f"{cell!r} is no {trait.kind}" if cell else "it is empty"
        remedy = infer_more(infer_from)
    except OverflowError:
        what, remedy = trait.too_large()
        what = f"{cell} {what}"
    else:
        return
    raise refusal(path, what, line=line, column=name, remedy=remedy)

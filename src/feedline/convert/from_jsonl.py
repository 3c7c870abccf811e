"""jsonl: a JSON object on each line; its values are numbers, strings, booleans, or lists of them.

What the first `infer_from` rows hold says what all do. Numbers are float32 if one of them has a fraction or
an exponent, else int64, as booleans are. A key that is null, or not there, is left out of the record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from feedline.convert.batch import Batch, Column, refusal
from feedline.convert.lines import Lines, first, in_batches
from feedline.convert.traits import Trait, infer_more

SUFFIXES = (".jsonl", ".ndjson")

_KINDS = {bool: "int64", int: "int64", float: "float32", str: "string"}
_TAKEN: dict[str, set[type]] = {"int64": {bool, int}, "float32": {bool, int, float}, "string": {str}}
_NAMES = {
    bool: "a boolean",
    int: "an integer",
    float: "a number with a fraction",
    str: "a string",
    list: "a list",
    dict: "an object",
    type(None): "nothing",
}

_Row = tuple[int, dict[str, Any]]


def read(paths: Sequence[str], infer_from: int) -> Iterator[Batch]:
    traits = _infer(paths, infer_from)
    for path in paths:
        lines = Lines(path)
        before = 0
        for rows in in_batches(_objects(lines), lines):
            _check_keys(path, traits, rows, infer_from)
            columns = {
                key: _column(path, key, trait, rows, infer_from)
                for key, trait in traits.items()
                if trait.kind is not None
            }
            yield Batch(path, columns, len(rows), lines.read - before)
            before = lines.read


def _objects(lines: Lines) -> Iterator[_Row]:
    decode = msgspec.json.Decoder().decode
    for line in lines:
        if line.isspace():
            continue
        remedy = 'Each line is an object, such as:  {"age": 7, "tags": ["a", "b"]}'
        try:
            found = decode(line)
        except (msgspec.DecodeError, UnicodeError) as error:
            if line.strip() in ("[", "{"):
                remedy += f"\nIf the file is one array of them:  jq -c '.[]' {lines.path} > lines.jsonl"
            raise refusal(lines.path, f"it is no JSON: {error}", line=lines.number, remedy=remedy) from None
        if not isinstance(found, dict):
            raise refusal(lines.path, f"it holds {_told(found)}, no object", line=lines.number, remedy=remedy)
        yield lines.number, found


def _infer(paths: Sequence[str], infer_from: int) -> dict[str, Trait]:
    traits: dict[str, Trait] = {}
    having: dict[str, int] = {}
    count = 0
    for path in paths:
        lines = Lines(path)
        for rows in first(in_batches(_objects(lines), lines), infer_from - count):
            count += len(rows)
            for line, found in rows:
                for key, value in found.items():
                    trait = traits.setdefault(key, Trait())
                    if value is not None:
                        having[key] = having.get(key, 0) + 1
                        _widen(path, line, key, trait, value)
        if count >= infer_from:
            break
    for key, trait in traits.items():
        trait.is_optional = having.get(key, 0) < count
    return traits


def _widen(path: str, line: int, key: str, trait: Trait, value: Any) -> None:
    """To one that this value has, too."""
    _check_items(path, line, key, value)
    trait.is_list |= isinstance(value, list)
    for item in _items(value):
        kind = _KINDS[type(item)]
        if trait.kind is not None and (kind == "string") != (trait.kind == "string"):
            raise refusal(
                path,
                f"it holds {_told(item)}, and lines before this one {trait.kind}",
                line=line,
                column=key,
                remedy="Make them all strings, or all numbers.",
            )
        trait.kind = "float32" if "float32" in (kind, trait.kind) else kind


def _check_keys(path: str, traits: dict[str, Trait], rows: list[_Row], infer_from: int) -> None:
    """A value whose key has no kind would be left out in silence."""
    known = {key for key, trait in traits.items() if trait.kind is not None}
    for line, found in rows:
        for key in found.keys() - known:
            if found[key] is not None and found[key] != []:
                what = f"it holds {_told(found[key])}, and lines before this one nothing"
                raise refusal(path, what, line=line, column=key, remedy=infer_more(infer_from))


def _column(path: str, key: str, trait: Trait, rows: list[_Row], infer_from: int) -> Column:
    values = [found.get(key) for _, found in rows]
    try:
        if all(_fits(trait, value) for value in values):
            return trait.column(values)
    except OverflowError:
        pass
    for line, found in rows:
        _check(path, line, key, trait, found.get(key), infer_from)
    raise AssertionError  # one of them is the culprit


def _fits(trait: Trait, value: Any) -> bool:
    if value is None:
        return trait.is_optional or trait.is_list
    assert trait.kind is not None
    taken = _TAKEN[trait.kind]
    if isinstance(value, list):
        return trait.is_list and taken.issuperset(map(type, value))
    return type(value) in taken


def _check(path: str, line: int, key: str, trait: Trait, value: Any, infer_from: int) -> None:
    _check_items(path, line, key, value)
    for item in _items(value) if trait.is_list else (value,):
        if not _fits(trait, item):
            what = f"it holds {_told(item)}, and the first {infer_from:,} rows {trait.kind}"
            raise refusal(path, what, line=line, column=key, remedy=infer_more(infer_from))
        try:
            trait.column([item])
        except OverflowError:
            what, remedy = trait.too_large()
            raise refusal(path, f"{item} {what}", line=line, column=key, remedy=remedy) from None


def _items(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else () if value is None else (value,)


def _check_items(path: str, line: int, key: str, value: Any) -> None:
    """Can this be in an Example?"""
    for item in _items(value):
        if type(item) not in _KINDS:
            place = "a list within a list" if item is not value and isinstance(item, list) else _told(item)
            raise refusal(
                path,
                f"it holds {place}, which an Example cannot",
                line=line,
                column=key,
                remedy="Give each value of an object a key of its own; make one flat list of nested ones, "
                "and leave null out of them.",
            )


def _told(value: Any) -> str:
    return _NAMES[type(value)]

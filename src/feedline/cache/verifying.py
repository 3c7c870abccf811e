"""Whether what an entry holds is sound, and whether it fits together."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from feedline.cache import part as parts
from feedline.cache import plan as documents
from feedline.cache.part import Part, Provenance
from feedline.cache.plan import IN_ORDER, MANIFEST, PLAN, Manifest, Plan, name_of
from feedline.cache.store import Store, Unavailable
from feedline.errors import CacheError, CorruptRecord

_MOST_TRIES = 3  # where the entry is made anew while it is looked at


@dataclass(frozen=True)
class CacheFinding:
    """An item of an entry that is damaged, missing, or not what it should be."""

    key: str
    item: str  # the plan, the manifest, or a part
    what: str

    def __str__(self) -> str:
        return f"{self.key}: {self.item}: {self.what}"


def numbers_of(names: Iterable[str]) -> list[int]:
    """Of the parts among these items, in order."""
    found = (re.fullmatch(r"part-(\d{8,18})", name) for name in names)
    return sorted(int(one[1]) for one in found if one is not None and name_of(int(one[1])) == one[0])


def verify_entry(store: Store, key: str, report: Callable[[int], None]) -> list[CacheFinding]:
    """What is wrong with it; nothing when it is gone. `report` is called with the size of each part."""
    findings: list[CacheFinding] = []
    for _ in range(_MOST_TRIES):
        try:
            plan = store.peek(key, PLAN)
            findings = [CacheFinding(key, *found) for found in _look_through(store, key, plan, report)]
            if not findings or store.peek(key, PLAN) == plan:
                break  # else it was made anew meanwhile
        except Unavailable:
            raise
        except CacheError as error:
            return [CacheFinding(key, "entry", str(error))]
    return findings


def _look_through(
    store: Store, key: str, plan_data: bytes | None, report: Callable[[int], None]
) -> Iterator[tuple[str, str]]:
    """An item, and what is wrong with it."""
    manifest_data = store.peek(key, MANIFEST)  # before the names: when it is there, all parts are
    names = store.names(key)
    numbers = numbers_of(names)
    for name in sorted(set(names) - {PLAN, MANIFEST, IN_ORDER, *map(name_of, numbers)}):
        yield name, "it is none of what an entry has"
    if plan_data is None:
        if numbers or manifest_data is not None:
            yield PLAN, "it is missing, and without it the rest is of no use"
        return
    try:
        plan = documents.decode(plan_data, Plan)
    except CorruptRecord as error:
        yield PLAN, f"{error.what}, and without it the rest is of no use"
        return
    if plan.key != key:
        yield PLAN, f"it is that of entry {plan.key}"
    rows: tuple[int, ...] | None = None
    if manifest_data is not None:
        try:
            manifest = documents.decode(manifest_data, Manifest)
        except CorruptRecord as error:
            yield MANIFEST, error.what
        else:
            if manifest.plan == documents.digest(plan_data).hex() and plan.allows(manifest.rows):
                rows = manifest.rows
            else:
                yield MANIFEST, "it does not fit the plan"
    for number in sorted(set(range(len(rows or ()))) - set(numbers)):
        yield name_of(number), "it is missing"
    yield from _look_through_parts(store, key, numbers, _Places(plan, rows), plan_data, report)


def _look_through_parts(
    store: Store,
    key: str,
    numbers: list[int],
    places: _Places,
    plan_data: bytes,
    report: Callable[[int], None],
) -> Iterator[tuple[str, str]]:
    plan_id = documents.digest(plan_data)
    for number in numbers:
        name = name_of(number)
        try:
            data = store.peek(key, name)
            if data is not None:
                report(len(data))
                if misfit := places.misfit(parts.decode(data, plan_id, number)):
                    yield name, misfit
            elif name in store.names(key):
                yield name, "it lies elsewhere: blobs= was not given, or does not have it"
        except CorruptRecord as error:
            yield name, error.what
        except Unavailable:
            raise
        except CacheError as error:
            yield name, str(error)


class _Places:
    """Where the parts of an entry must begin and end, as far as it is known."""

    def __init__(self, plan: Plan, rows: Sequence[int] | None) -> None:
        """`rows` are those of the manifest, if there is one."""
        self._plan = plan
        self._rows = rows
        self._firsts = list(accumulate(rows or (), initial=0))
        self._parts = plan.parts if rows is None else len(rows)
        self._end: tuple[int, int, bool] | None = (
            None  # of the part before: its number, end, and is it the last
        )
        self._provenance: Provenance | None = None  # of the part before

    def misfit(self, part: Part) -> str | None:
        """What is wrong with a sound part, if anything. They come in order."""
        number, end = part.number, self._end
        self._end = number, part.first + part.block.rows, part.is_last
        before, self._provenance = self._provenance, part.provenance
        follows = end is not None and end[0] + 1 == number
        if follows and before and part.provenance and before.after != part.provenance.before:
            return "it was made from other input rows than those that follow the part before"
        if self._parts is not None:
            if number >= self._parts:
                return f"there should be {self._parts:,} parts only"
            if part.is_last != (number + 1 == self._parts):
                return "it does not tell rightly whether it is the last part"
        first: int | None = None
        rows: int | None = None
        if self._plan.length is not None:
            first, stop = self._plan.span(number)
            rows = stop - first
        elif self._rows is not None:
            first, rows = self._firsts[number], self._rows[number]
        elif end is not None and end[0] + 1 == number:
            if end[2]:
                return "it comes after the last part"
            first = end[1]
        if (first is None or part.first == first) and (rows is None or part.block.rows == rows):
            return None
        should = f"it should begin with element {first:,}" + ("" if rows is None else f" and have {rows:,}")
        return f"{should}, but begins with element {part.first:,} and has {part.block.rows:,}"

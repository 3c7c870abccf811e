"""The two documents of an entry: its plan, made when it is begun, and its manifest, made when it is complete.

Both are JSON behind a checksum."""

from __future__ import annotations

import time
from collections.abc import Sequence
from hashlib import blake2b
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec

from feedline.errors import CorruptRecord

PLAN, MANIFEST = "plan", "manifest"
IN_ORDER = "in-order"  # is there once runs cannot share the work, and says what told so
NOT_REPEATABLE = "each run reads other elements from the steps before the cache"  # such a reason
_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
_DIGEST = 16
_SAME_SIZE = 1024  # parts in a row, where their number is unknown


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What all runs that fill an entry must agree on: above all, which rows make up a part.

    | length | part_rows | the runs |
    |---|---|---|
    | known | set | compute any part at any time, by the numbers of its rows |
    | None | set | each read the input in order, and compute only their own parts, until one is cut short |
    | None | None | make one part after another, as large as each turns out |
    """

    key: str
    length: _Count | None  # of an indexed input
    part_rows: Annotated[int, msgspec.Meta(ge=1, le=1 << 40)] | None = None  # of the first part
    seeds: tuple[int, ...]  # of the random steps, as the first run drew them
    steps: str = ""  # which kinds of steps: entries for the same ones are compared
    pipeline: dict[str, str] = {}  # the parts of the fingerprint, by name
    sharing: str = ""  # how runs share the work, in a sentence
    made: float = msgspec.field(default_factory=time.time)

    @property
    def parts(self) -> int | None:
        """How many there are, if that is known from the beginning."""
        if self.length is None or self.part_rows is None:
            return None
        return -(-self.length // self.part_rows)

    def span(self, number: int) -> tuple[int, int]:
        """The number of a part's first row, and of the row after its last one if the input goes on so far."""
        assert self.part_rows is not None
        if self.length is not None:
            begin = number * self.part_rows
            return begin, min(begin + self.part_rows, self.length)
        # The number of parts is unknown, so they grow: an entry should not have millions of them.
        times, rest = divmod(number, _SAME_SIZE)
        begin = self.part_rows * (_SAME_SIZE * times * (times + 1) // 2 + rest * (times + 1))
        return begin, begin + self.part_rows * (times + 1)

    def part_at(self, row: int) -> int:
        """The number of the part that has the row."""
        assert self.part_rows is not None
        if self.length is not None:
            return row // self.part_rows
        times = 0
        while self.span((times + 1) * _SAME_SIZE)[0] <= row:
            times += 1
        first = times * _SAME_SIZE
        return first + (row - self.span(first)[0]) // (self.part_rows * (times + 1))

    def allows(self, rows: Sequence[int]) -> bool:
        """Can the parts have so many rows each?"""
        if self.parts is None:
            return bool(rows)
        is_even = all(count == self.part_rows for count in rows[:-1])
        return len(rows) == self.parts and sum(rows) == self.length and is_even


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    plan: str  # that the parts follow, by its digest: the plan may have been made anew since
    rows: tuple[_Count, ...]  # of each part


_Document = TypeVar("_Document", Plan, Manifest)


def how_shared(plan: str, seen: str) -> str:
    """What was planned for sharing the work, with what was seen of it; the latter alone where it differs."""
    return seen if "ne run computes" in seen else " ".join(filter(None, (plan, seen)))


def in_order_because(reason: str) -> str:
    """For people."""
    return f"One run computes, and the others read along: {reason}."


def name_of(number: int) -> str:
    """Of a part."""
    return f"part-{number:08}"


def encode(document: Plan | Manifest) -> bytes:
    text = msgspec.json.encode(document)
    return digest(text).hex().encode() + b"\n" + text + b"\n"


def decode(data: Any, kind: type[_Document]) -> _Document:
    """CorruptRecord when it is not sound."""
    first, _, text = bytes(data).partition(b"\n")
    text = text.removesuffix(b"\n")
    if digest(text).hex().encode() != first:
        raise CorruptRecord(
            f"the {kind.__name__.lower()} of a cache entry is damaged", remedy="It is made again."
        )
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise CorruptRecord(
            f"the {kind.__name__.lower()} of a cache entry cannot be read: {error}",
            remedy="Another version of feedline made it; remove it:  feedline cache rm",
        ) from None


def digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=_DIGEST).digest()

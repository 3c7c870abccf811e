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
_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
_DIGEST = 16


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What all that fill an entry must agree on."""

    key: str
    length: _Count | None  # of an indexed input; None: parts are made in order, as large as they turn out
    part_rows: Annotated[int, msgspec.Meta(ge=1)] | None = (
        None  # of each part but the last, of an indexed one
    )
    seeds: tuple[int, ...]  # of the random steps, as the first run drew them
    steps: str = ""  # which kinds of steps: entries for the same ones are compared
    pipeline: dict[str, str] = {}  # the parts of the fingerprint, by name
    made: float = msgspec.field(default_factory=time.time)

    @property
    def parts(self) -> int | None:
        """How many there are, if that is known from the beginning."""
        if self.length is None or self.part_rows is None:
            return None
        return -(-self.length // self.part_rows)

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

"""A part of an entry as bytes: a frame of rows, what it is a part of, and checksums of both.

    frame | footer, msgpack | tail, 32 bytes, little-endian:
        crc32c of the frame u32 | crc32c of the footer u32 | version u32 | footer size u32 | frame size u64
        | magic "FLpart\\0\\0"

The frame comes first, so that in a file that is mapped its arrays are aligned. A part comes from a stranger:
`decode` takes nothing in it for granted, and runs no code from it.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple, TypeAlias

import msgspec
import numpy as np

from feedline import _native, frame
from feedline.block import Block
from feedline.column import Array
from feedline.errors import CorruptRecord
from feedline.graph import State
from feedline.joining import Joined
from feedline.structure import flatten

MAGIC = b"FLpart\0\0"
VERSION = 1
_TAIL = struct.Struct("<IIIIQ8s")
_REMEDY = "It is computed again."
_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]


class Provenance(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a part was made from, where each run reads the input itself and computes only its own parts."""

    before: bytes  # digest of all input rows before those of the part
    after: bytes  # and of those up to its end: what the next part must have as `before`
    reading: float  # seconds that it took to read the input rows
    all: float  # seconds that the part took in all


class _Footer(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    plan: bytes  # which it follows, by its digest
    number: _Count
    first: _Count  # the number of its first element
    is_last: bool
    after: str  # the state of the input after it, as JSON
    provenance: Provenance | None = None


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Footer)


class OfAnotherPlan(CorruptRecord):
    """A part that may be sound, and is not of this entry as it was begun."""


class Part(NamedTuple):
    number: int
    first: int
    block: Block
    is_last: bool
    after: State
    provenance: Provenance | None = None


class Made(NamedTuple):
    """A part that is to be published. Its rows are still where they were computed."""

    number: int
    first: int
    blocks: Sequence[Block]
    is_last: bool
    after: State
    provenance: Provenance | None = None

    @property
    def block(self) -> Block:
        return Block.concat(self.blocks) if self.blocks else Block(flatten(())[1], [], 0)


def encode(made: Made, plan: bytes) -> list[Any]:
    """The bytes, in pieces, without copying rows where that can be spared."""
    pieces = _pieces(made)
    crc = 0
    for piece in pieces:
        crc = _native.crc32c(piece, crc)
    after = json.dumps(made.after)
    footer = _encoder.encode(_Footer(plan, made.number, made.first, made.is_last, after, made.provenance))
    footer_crc = _native.crc32c(np.frombuffer(footer, np.uint8))
    tail = _TAIL.pack(crc, footer_crc, VERSION, len(footer), sum(map(len, pieces)), MAGIC)
    return [*pieces, footer + tail]


def _pieces(made: Made) -> list[Array]:
    blocks = made.blocks
    if len({block.structure for block in blocks}) != 1:
        return frame.Plan.of(made.block).pieces()  # there are none, or it says that they do not fit
    columns = [Joined.of(same) for same in zip(*(block.columns for block in blocks), strict=True)]
    return frame.Plan(blocks[0].structure, columns, sum(block.rows for block in blocks)).pieces()


def decode(data: Any, plan: bytes, number: int, *, is_checked: bool = False) -> Part:
    """The part, with arrays that are views of `data`. CorruptRecord when it is not sound, or another one.

    With `is_checked`, the checksum of the frame, which takes the time, was found right before.
    """
    held = np.frombuffer(data, np.uint8)
    framed, footer = _cut(held, is_checked)
    if footer.plan != plan:
        raise OfAnotherPlan("not a part of this cache entry: it follows another plan", remedy=_REMEDY)
    if footer.number != number:
        raise _corrupt(f"it is the one with the number {footer.number}")
    block = frame.decode(framed)
    try:
        after = json.loads(footer.after)
    except (ValueError, RecursionError):
        raise _corrupt("its state cannot be read") from None
    return Part(number, footer.first, block, footer.is_last, after, footer.provenance)


def _cut(held: Array, is_checked: bool) -> tuple[Array, _Footer]:
    if len(held) < _TAIL.size:
        raise _corrupt(f"it has {len(held)} bytes")
    crc, footer_crc, version, footer_size, frame_size, magic = _TAIL.unpack(held[-_TAIL.size :].tobytes())
    if magic != MAGIC or version != VERSION:
        raise _corrupt("it does not end as a part does")
    if frame_size + footer_size + _TAIL.size != len(held):
        raise _corrupt(f"it has {len(held):,} bytes, which is not what it says")
    framed, footer = held[:frame_size], held[frame_size : -_TAIL.size]
    if _native.crc32c(footer) != footer_crc or not (is_checked or _native.crc32c(framed) == crc):
        raise _corrupt("its checksum does not fit")
    try:
        return framed, _decoder.decode(footer.data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise _corrupt("its footer cannot be read") from None


def _corrupt(what: str) -> CorruptRecord:
    return CorruptRecord(f"not a sound part of a cache entry: {what}", remedy=_REMEDY)

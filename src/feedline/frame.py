"""A Block laid out in one buffer, the same in shared memory, in a file and over a network.

    preamble, 32 bytes, little-endian:
        magic "FLframe\\0" | crc32c u32 | version u32 | header size u32 | zero u32 | total size u64
    header: msgpack: the number of rows, the structure, and of each column its kind and dtype
    the arrays, in the order of the header, each at the next 64-byte boundary
    zeros up to the next 64-byte boundary, which is the total size

The checksum is over what follows it in the preamble, and over the header. The arrays have none: in shared
memory it would cost more than the rest, and the cache and the network check whole frames themselves.

The header does not say where an array is, nor twice how many rows there are: the positions follow from the
sizes, so they cannot overlap, and no two can disagree. A frame comes from a stranger: `decode` takes nothing
in it for granted, runs no code from it, and either raises CorruptRecord or gives a Block that is sound.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from math import prod
from typing import Annotated, Any, TypeAlias

import msgspec
import numpy as np

from feedline import _native
from feedline.block import Block
from feedline.column import (
    Array,
    Bytes,
    Column,
    Objects,
    Offsets,
    Ragged,
    empty,
    length,
    row_of,
)
from feedline.errors import CorruptRecord, UsageError
from feedline.joining import Joined, Rows, copy, stack
from feedline.spec import as_leaf, dtype_name, dtype_of
from feedline.structure import Node, Structure

ALIGNMENT = 64
MAGIC = b"FLframe\0"
VERSION = 1
_PREAMBLE = struct.Struct("<8sIIIIQ")
_UNCHECKED = 12  # bytes before what the checksum covers: magic and checksum

MAX_NESTING = 8
"""Ragged within Ragged."""

MAX_EMPTY = 1 << 24
"""What an array without bytes may claim to hold: nothing in the frame backs the claim, and reading rows of
nothing takes time all the same."""

_Size: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=1 << 48)]
_Shape: TypeAlias = Annotated[tuple[_Size, ...], msgspec.Meta(max_length=32)]


class _Part(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    pass


class _Dense(_Part, frozen=True, tag="dense"):
    """One array: rows of `shape`."""

    dtype: str
    shape: _Shape


class _Bytes(_Part, frozen=True, tag="bytes"):
    """Offsets, of which there is one more than strings, then `size` bytes."""

    shape: _Shape
    size: _Size


class _Ragged(_Part, frozen=True, tag="ragged"):
    """Offsets, of which there is one more than rows, then a column of `count` values."""

    count: _Size
    values: _Dense | _Bytes | _Ragged


class _Objects(_Part, frozen=True, tag="objects"):
    """Each row as a column of its own, of one row."""

    items: tuple[_Dense | _Bytes | _Ragged, ...]


_Column: TypeAlias = _Dense | _Bytes | _Ragged | _Objects


class _Header(_Part, frozen=True):
    rows: _Size
    structure: Node
    columns: tuple[_Column, ...]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Header)


_ZEROS = np.zeros(ALIGNMENT, np.uint8)


def encode(block: Block) -> Array:
    """The block as a frame, in one array of bytes that is exactly as large.

    >>> block = Block.from_elements([{"x": [1.0, 2.0]}, {"x": [3.0]}])
    >>> decode(encode(block)).row(1)
    {'x': array([3.], dtype=float32)}
    """
    plan = Plan.of(block)
    buffer = empty((plan.size,), np.dtype(np.uint8))
    plan.write(buffer)
    return buffer


def size_of(block: Block) -> int:
    """How many bytes `encode` needs."""
    return Plan.of(block).size


def encode_into(block: Block, buffer: Any) -> int:
    """Write the frame to the front of a writable buffer, shared memory say; the bytes written."""
    plan = Plan.of(block)
    plan.write(buffer)
    return plan.size


class Plan:
    """Where everything of a block goes: `size` to find the memory, `write` to fill it."""

    def __init__(self, structure: Structure, columns: Sequence[Column | Rows | Joined], rows: int) -> None:
        """Of columns, or of what becomes one only when it is written, which spares a copy: rows to `write`,
        or columns to be joined, for `pieces`."""
        self._arrays: list[tuple[Array | Rows | Joined, int]] = []
        parts = tuple(self._part(c, p) for c, p in zip(columns, structure.paths(), strict=True))
        if not parts and rows > MAX_EMPTY:
            raise UsageError(f"a frame of {rows:,} rows without leaves; cut it at {MAX_EMPTY:,}.")
        try:
            self._header = _encoder.encode(_Header(rows, structure.root, parts))
        except UnicodeEncodeError as error:
            raise UsageError(f"{structure}: a key has no UTF-8 form: {error}.") from None
        self.rows = rows
        self._start = _boundary(_PREAMBLE.size + len(self._header))
        self.size = self._start + sum(_boundary(array.nbytes) for array, _ in self._arrays)

    @classmethod
    def of(cls, block: Block) -> Plan:
        return cls(block.structure, block.columns, block.rows)

    def _part(self, column: Column | Rows | Joined, path: str, depth: int = 0) -> Any:
        if isinstance(column, Objects):
            items = [self._part(_one_row(item, path), path) for item in column.items]
            return _Objects(tuple(items))
        if isinstance(column, np.ndarray | Rows | Joined):
            part = _Dense(_name(column, path), column.shape[1:])
            if _hollow(column.shape) > MAX_EMPTY:
                raise UsageError(f"{path}: {column.shape} is too much for an array that holds nothing.")
            self._arrays.append((column, 0))
            return part
        if isinstance(column, Bytes):
            begin, end = int(column.offsets[0]), int(column.offsets[-1])
            if _hollow((column.rows, *column.shape)) > MAX_EMPTY:
                raise UsageError(f"{path}: {column.shape} is too much for an array that holds nothing.")
            self._arrays += [(column.offsets, begin), (column.data[begin:end], 0)]
            return _Bytes(column.shape, end - begin)
        if depth == MAX_NESTING:
            raise UsageError(f"{path}: Ragged is nested more than {MAX_NESTING} deep.")
        whole = column._normal()
        self._arrays.append((whole._offsets, 0))
        return _Ragged(length(whole._values), self._part(whole._values, path, depth + 1))

    def pieces(self) -> list[Array]:
        """The frame in pieces of bytes, which are the block's own arrays where they can be."""
        front = empty((self._start,), np.dtype(np.uint8))
        self._write_front(front)
        pieces = [front]
        for array, base in self._arrays:
            assert not isinstance(array, Rows)
            for one in array.columns if isinstance(array, Joined) else [array - base if base else array]:
                pieces.append(np.ascontiguousarray(one).reshape(-1).view(np.uint8))
            pieces.append(_ZEROS[: _boundary(array.nbytes) - array.nbytes])
        return [piece for piece in pieces if len(piece)]

    def _write_front(self, out: Array) -> None:
        """All before the arrays."""
        end = _PREAMBLE.size + len(self._header)
        out[_PREAMBLE.size : end] = np.frombuffer(self._header, np.uint8)
        out[end : self._start] = 0
        write_preamble(out, len(self._header), self.size)

    def write(self, buffer: Any) -> None:
        out = np.frombuffer(buffer, np.uint8)
        if not out.flags.writeable or len(out) < self.size:
            raise UsageError(f"a frame of {self.size:,} bytes needs a writable buffer of at least that size.")
        self._write_front(out)
        at = self._start
        for array, base in self._arrays:
            assert not isinstance(array, Joined)
            end = at + array.nbytes
            there = out[at:end].view(array.dtype).reshape(array.shape)
            if isinstance(array, Rows):
                array.stack_into(there)
            elif base:
                np.subtract(array, base, out=there)
            else:
                copy(array, there)
            at += _boundary(array.nbytes)
            out[end:at] = 0  # so that equal blocks are equal frames, and no old memory leaves the process


def write_preamble(frame: Array, header_size: int, total: int) -> None:
    """Write the 32 bytes before the header, which must be there already."""
    fields = [MAGIC, 0, VERSION, header_size, 0, total]
    _PREAMBLE.pack_into(frame.data, 0, *fields)
    fields[1] = _native.crc32c(frame[_UNCHECKED : _PREAMBLE.size + header_size])
    _PREAMBLE.pack_into(frame.data, 0, *fields)


def decode(buffer: Any, writable: bool = False) -> Block:
    """The block of a frame, as views of the buffer, which lives as long as they do.

    They can be written to if `writable`, and the buffer is.

    A buffer that does not begin at a 64-byte boundary, as that of a bytes object, is copied first.
    """
    frame = np.frombuffer(buffer, np.uint8)
    header, header_size = _read_header(frame)
    try:
        structure = Structure(header.structure)
    except UsageError as error:
        raise _corrupt(f"the structure is impossible: {error}") from None
    if structure.leaf_count != len(header.columns):
        raise _corrupt(f"there are {len(header.columns)} columns for {structure.leaf_count} leaves")
    if not header.columns and header.rows > MAX_EMPTY:
        raise _corrupt(f"there are {header.rows:,} rows without leaves")
    if not _native.is_aligned(frame):
        frame, unaligned = empty(frame.shape, frame.dtype), frame
        frame[...] = unaligned
    if not writable:
        frame = frame.view()
        frame.flags.writeable = False
    reader = _Reader(frame, _boundary(_PREAMBLE.size + header_size))
    columns = [reader.column(part, header.rows) for part in header.columns]
    if reader.at != len(frame):
        raise _corrupt(f"the arrays end at byte {reader.at:,}, the frame at {len(frame):,}")
    return Block._trusted(structure, columns, header.rows)


def _read_header(frame: Array) -> tuple[_Header, int]:
    if len(frame) < _PREAMBLE.size:
        raise _corrupt(f"a frame has {_PREAMBLE.size} bytes at least, this has {len(frame)}")
    magic, crc, version, header_size, zero, total = _PREAMBLE.unpack_from(frame.data)
    if magic != MAGIC:
        raise _corrupt(f"a frame begins with {MAGIC!r}, this with {magic!r}")
    if version != VERSION or zero:
        raise _corrupt(
            f"this is a frame of version {version}.{zero}; this feedline reads version {VERSION}.0"
        )
    if total != len(frame):
        raise _corrupt(f"the frame says that it has {total:,} bytes, but there are {len(frame):,}")
    if header_size > len(frame) - _PREAMBLE.size:
        raise _corrupt(f"a header of {header_size:,} bytes in a frame of {len(frame):,}")
    end = _PREAMBLE.size + header_size
    found = _native.crc32c(frame[_UNCHECKED:end])
    if found != crc:
        raise _corrupt(f"header checksum 0x{found:08x}, frame says 0x{crc:08x}")
    try:
        header = _decoder.decode(frame[_PREAMBLE.size : end].data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise _corrupt(f"the header cannot be read: {error}") from None
    return header, header_size


class _Reader:
    """Takes the arrays from a frame, one after another."""

    def __init__(self, frame: Array, at: int) -> None:
        self._frame = frame
        self.at = at

    def column(self, part: _Column, rows: int, depth: int = 0) -> Column:
        if isinstance(part, _Dense):
            return self._dense(part, rows)
        if isinstance(part, _Bytes):
            _bounded((rows, *part.shape))
            offsets = self._offsets(rows * prod(part.shape), part.size)
            return Bytes(self._array(np.dtype(np.uint8), (part.size,)), offsets, part.shape, rows)
        if isinstance(part, _Ragged):
            if depth == MAX_NESTING:
                raise _corrupt(f"Ragged is nested more than {MAX_NESTING} deep")
            offsets = self._offsets(rows, part.count)
            return Ragged._trusted(self.column(part.values, part.count, depth + 1), offsets)
        if len(part.items) != rows:
            raise _corrupt(f"a column has {len(part.items)} objects, the frame {rows:,} rows")
        columns = [self.column(item, 1) for item in part.items]
        return Objects([row_of(column, 0) for column in columns])

    def _dense(self, part: _Dense, rows: int) -> Array:
        try:
            dtype = dtype_of(part.dtype)
        except UsageError:
            raise _corrupt(f"{part.dtype!r} is no dtype of elements") from None
        if dtype.hasobject:
            raise _corrupt("strings are said to lie in an array of objects")
        array = self._array(dtype, (rows, *part.shape))
        # NumPy counts the True of a mask by adding up bytes; other values than 0 and 1 break its arithmetic.
        if dtype == np.bool_ and array.size and array.view(np.uint8).max() > 1:
            raise _corrupt("a bool is neither 0 nor 1")
        return array

    def _offsets(self, rows: int, values: int) -> Offsets:
        offsets = self._array(np.dtype(np.int64), (rows + 1,))
        if offsets[0] != 0 or offsets[-1] != values or _native.first_fall(offsets) >= 0:
            raise _corrupt(f"the offsets of {rows:,} rows fall, or do not go from 0 to {values:,}")
        return offsets

    def _array(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
        _bounded(shape)
        size = prod(shape) * dtype.itemsize  # of Python's integers, which do not wrap
        if size > len(self._frame) - self.at:
            raise _corrupt(f"an array of {size:,} bytes at byte {self.at:,} of {len(self._frame):,}")
        array = self._frame[self.at : self.at + size].view(dtype).reshape(shape)
        self.at += _boundary(size)
        return array


def _boundary(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _hollow(shape: tuple[int, ...]) -> int:
    """How much an array claims that holds nothing; 0 when it holds something."""
    return prod(size for size in shape if size) if 0 in shape else 0


def _bounded(shape: tuple[int, ...]) -> None:
    if _hollow(shape) > MAX_EMPTY:
        raise _corrupt(f"an array of shape {shape}, which holds nothing")


def _name(array: Array | Rows | Joined, path: str) -> str:
    try:
        name = dtype_name(array.dtype)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None
    if name == "string":
        raise UsageError(f"{path}: strings are held in a Bytes column, not in an array of objects.")
    return name


def _one_row(item: Any, path: str) -> Column:
    column = stack([as_leaf(item, path)])
    if isinstance(column, Objects):
        raise UsageError(
            f"{path}: {type(item).__name__} cannot be put into a frame, so it can neither be cached nor "
            "cross to another process.\n  Return arrays, numbers, strings or feedline.Ragged."
        )
    return column


def _corrupt(what: str) -> CorruptRecord:
    return CorruptRecord(
        f"not a sound frame: {what}", remedy="It was cut short or overwritten; make it again."
    )

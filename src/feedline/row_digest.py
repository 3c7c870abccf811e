"""A digest of rows that tells whether two runs read the same input.

Equal rows have equal digests, however they are cut into blocks and whichever columns hold them. It detects
sources that do not repeat themselves; it is no defence against someone who forges rows.
"""

from __future__ import annotations

import os
from collections.abc import Hashable
from hashlib import blake2b
from itertools import pairwise
from typing import Any

import numpy as np

from feedline import _native
from feedline.block import Block
from feedline.column import Array, Bytes, Column, Objects, Ragged
from feedline.joining import stack

_SIZE = 16


class RowDigest:
    """Of rows that are added one block after another."""

    def __init__(self, before: bytes = b"", *, sample: int | None = None) -> None:
        """`before` is the digest of all rows before the first one. With `sample`, only that many bytes of an
        array count: enough to tell that it is another one."""
        self._before = before
        self._sample = sample
        self._structure = ""
        self._leaves: list[_LeafDigest] = []

    def add(self, block: Block) -> None:
        if not self._leaves:
            self._structure = repr(block.structure)
            self._leaves = [_LeafDigest(self._sample) for _ in block.columns]
        for leaf, column in zip(self._leaves, block.columns, strict=True):
            leaf.add(column)

    @property
    def is_comparable(self) -> bool:
        """False once there were objects that are no arrays: each of them counts as different."""
        return all(leaf.is_comparable for leaf in self._leaves)

    def digest(self) -> bytes:
        """Of all rows so far, and those before them."""
        parts = [self._structure, *(leaf.summary() for leaf in self._leaves)]
        return blake2b(self._before + repr(parts).encode(), digest_size=_SIZE).digest()


class _LeafDigest:
    """The rows of one leaf: runs of rows of the same shape, and the bytes of all of them."""

    def __init__(self, sample: int | None) -> None:
        self._sample = sample
        self._shapes = blake2b(digest_size=_SIZE)
        self._run: Hashable = None  # dtype and shape of the last rows
        self._rows = 0  # in that run
        self._values = 0  # CRC32C of all values, end to end
        self._lengths = 0  # and of the lengths of strings, or of rows that are Ragged themselves
        self._inner: _LeafDigest | None = None  # of the rows of such rows
        self.is_comparable = True

    def add(self, column: Column) -> None:
        if isinstance(column, np.ndarray):
            self._count((column.dtype.name, column.shape[1:]), len(column))
            self._values = _crc(self._sampled(column), self._values)
        elif isinstance(column, Bytes):
            self._count(("string", column.shape), len(column))
            self._strings(column)
        elif isinstance(column, Ragged):
            self._ragged(column)
        else:
            self._objects(column)

    def _sampled(self, column: Array) -> Array:
        if self._sample is None or not len(column) or column[0].nbytes <= self._sample:
            return column
        half = self._sample // 2
        rows = np.ascontiguousarray(column).reshape(len(column), -1).view(np.uint8)
        return np.concatenate([rows[:, :half], rows[:, -half:]], axis=1)

    def _ragged(self, column: Ragged) -> None:
        column = column._normal()
        values = column._values
        if isinstance(values, Ragged):
            self._inner = self._inner or _LeafDigest(self._sample)
            self._inner.add(values)
            self._count("ragged", len(column))
            self._lengths = _crc(column.lengths, self._lengths)
        elif isinstance(values, Bytes):
            self._count_lengths("string", column.lengths, values.shape)
            self._strings(values)
        else:
            assert isinstance(values, np.ndarray)
            self._count_lengths(values.dtype.name, column.lengths, values.shape[1:])
            self._values = _crc(values, self._values)

    def _objects(self, column: Objects) -> None:
        for item in column.items:
            alone = stack([item])
            if isinstance(alone, Objects):
                self._count(os.urandom(_SIZE), 1)  # like nothing else
                self.is_comparable = False
            else:
                self.add(alone)

    def _strings(self, column: Bytes) -> None:
        whole = column.normal()
        self._lengths = _crc(np.diff(whole.offsets), self._lengths)
        self._values = _crc(whole.data, self._values)

    def _count_lengths(self, kind: str, lengths: Array, shape: tuple[int, ...]) -> None:
        bounds = [0, *(np.flatnonzero(np.diff(lengths)) + 1).tolist(), len(lengths)]
        for begin, end in pairwise(bounds):
            if begin < end:
                self._count((kind, (int(lengths[begin]), *shape)), end - begin)

    def _count(self, run: Hashable, rows: int) -> None:
        if run != self._run:
            self._shapes.update(repr((self._run, self._rows)).encode())
            self._run, self._rows = run, 0
        self._rows += rows

    def summary(self) -> tuple[Any, ...]:
        inner = None if self._inner is None else self._inner.summary()
        return self._shapes.hexdigest(), self._run, self._rows, self._values, self._lengths, inner


def _crc(values: Array, before: int) -> int:
    return _native.crc32c(np.ascontiguousarray(values).reshape(-1).view(np.uint8), before)

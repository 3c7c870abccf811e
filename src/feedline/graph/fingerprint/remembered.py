"""Digests of large arrays, remembered as long as the arrays live.

A cache asks for the fingerprint at the start of each iteration until its entry is complete, and a node may
hold gigabytes. An array is known by the memory that it shows and by whom that belongs to, not by its numbers.
So a digest may be used again only if the numbers are still the same:

- None of the arrays that lead to the memory can be written to, and it is NumPy's own or that of a `bytes`:
  then nobody can change it, except who makes the array that owns it writable again, and read-only after that.
- Else it is read again. A node shows its rows read-only, but they may be the memory of an array that the
  user still writes to, or of a file. A checksum costs a small part of a digest, and less than an iteration
  over the rows; that a change leaves it as it was happens once in four billion times.
"""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from feedline import _native
from feedline.graph.fingerprint.objects import digest

_LARGE = 1 << 20  # bytes; of less, the digest is at hand as soon

_View: TypeAlias = tuple[int, tuple[int, ...], tuple[int, ...], str]
"""Where in the memory of the owner the numbers are: address, shape, strides, dtype."""


class _Known(NamedTuple):
    checksum: int | None  # None: they cannot change
    digest: str


class _Owner(NamedTuple):
    alive: weakref.ref[Any]
    views: dict[_View, _Known]


_owners: dict[int, _Owner] = {}  # by id; arrays have no hash


def digest_of_array(array: Any) -> str:
    """Of the numbers, whatever their shape and layout are."""
    if array.nbytes < _LARGE:
        return digest(_bytes(array))
    owner, is_fixed = _owner(array)
    views = _views(owner)
    view = array.__array_interface__["data"][0], array.shape, array.strides, str(array.dtype)
    known = views.get(view)
    if known is not None and is_fixed and known.checksum is None:
        return known.digest
    data = _bytes(array)
    # Before the digest: what is changed meanwhile is another array the next time.
    checksum = None if is_fixed else _native.crc32c(data)
    if known is None or known.checksum is None or known.checksum != checksum:
        views[view] = known = _Known(checksum, digest(data))
    return known.digest


def _bytes(array: Any) -> Any:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _owner(array: Any) -> tuple[Any, bool]:
    """The array that others are views of, and whether nobody can change what is in it."""
    is_fixed = not array.flags.writeable
    while isinstance(array.base, np.ndarray):
        array = array.base
        is_fixed = is_fixed and not array.flags.writeable
    return array, is_fixed and (array.base is None or type(array.base) is bytes)


def _views(owner: Any) -> dict[_View, _Known]:
    key = id(owner)
    found = _owners.get(key)
    if found is None or found.alive() is not owner:
        found = _owners[key] = _Owner(weakref.ref(owner, lambda gone: _forget(key, gone)), {})
    return found.views


def _forget(key: int, gone: weakref.ref[Any]) -> None:
    found = _owners.get(key)
    if found is not None and found.alive is gone:
        del _owners[key]

"""What an object holds: of an array its numbers, of any other what would be pickled of it.

Functions are sent to workers pickled, with all the objects they use. So what is not pickled can have no part
in their results.
"""

from __future__ import annotations

import copyreg
import hashlib
import random
from collections.abc import Iterator
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary

import numpy as np

from feedline.graph.fingerprint.origin import is_library_class

_FRAMEWORKS = {"jax", "jaxlib", "keras", "tensorflow", "torch"}


def digest(data: Any) -> str:
    return hashlib.blake2b(data, digest_size=10).hexdigest()


def arrays_of(value: Any) -> list[Any] | None:
    """The arrays that an array, or what can be seen as one, consists of; None of others."""
    if isinstance(value, np.ndarray):
        if isinstance(value, np.ma.MaskedArray):
            return [value.data, np.ma.getmaskarray(value), np.asarray(value.fill_value)]
        return [np.asarray(value)] if is_library_class(type(value)) else None
    if isinstance(value, np.generic):
        return [np.asarray(value)]
    if _is_of_a_framework(type(value)) and hasattr(value, "__array__"):
        try:
            return [np.asarray(value)]
        except Exception:
            return None  # it is on another device, say, or symbolic
    return None


class Content(NamedTuple):
    made_of: list[Any]
    attributes: list[tuple[str, Any]]  # by name
    items: list[Any]


def content_of(value: Any) -> Content | None:
    """None if it does not tell, or would tell something else the next time.

    >>> from fractions import Fraction
    >>> content_of(Fraction(1, 3))
    Content(made_of=[1, 3], attributes=[], items=[])
    """
    kind = type(value)
    if isinstance(value, Iterator) and is_library_class(kind):
        return None  # it is not what it was, once something was taken from it
    if isinstance(value, WeakKeyDictionary | WeakValueDictionary | WeakSet):
        return None
    if isinstance(value, random.Random) or kind.__module__.startswith("numpy.random"):
        return None  # nor is a generator of random numbers
    # To pickle one of those may mean to save a model.
    if _is_of_a_framework(kind) or any(_is_of_a_framework(one) and _reduces(one) for one in kind.__mro__):
        return None
    try:
        reduce = copyreg.dispatch_table.get(kind)
        reduced: Any = value.__reduce_ex__(4) if reduce is None else reduce(value)
    except Exception:
        return None
    if isinstance(reduced, str):
        return Content([reduced], [], [])
    maker, arguments, state, items, pairs = (*reduced, None, None, None)[:5]
    of_class = maker is kind or maker is copyreg.__newobj__  # type: ignore[attr-defined]
    made_of = [] if of_class else [maker]
    made_of += [one for one in arguments if one is not kind]
    attributes, other = _attributes(state)
    if kind is np.vectorize:  # the first call makes it
        attributes = [(name, one) for name, one in attributes if name != "_ufunc"]
    return Content([*made_of, *other], attributes, [*(items or ()), *(pairs or ())])


def _attributes(state: Any) -> tuple[list[tuple[str, Any]], list[Any]]:
    """The attributes in what `__getstate__` gave, and what else it gave."""
    if state is None:
        return [], []
    if isinstance(state, tuple) and len(state) == 2 and isinstance(state[1], dict):  # with __slots__
        state = {**state[0], **state[1]} if isinstance(state[0], dict) else state[1]
    if isinstance(state, dict) and all(isinstance(name, str) for name in state):
        return sorted(state.items()), []
    return [], [state]


def _is_of_a_framework(kind: type) -> bool:
    return kind.__module__.partition(".")[0] in _FRAMEWORKS


def _reduces(kind: type) -> bool:
    return "__reduce__" in vars(kind) or "__reduce_ex__" in vars(kind)

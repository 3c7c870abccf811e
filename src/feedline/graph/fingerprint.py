"""The fingerprint of a pipeline: the same for the same steps with the same arguments, in any process.

A function counts by its name and its code, not by what it reaches outside of itself.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields, is_dataclass
from functools import partial
from types import CodeType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from feedline import _native
from feedline.block import Block
from feedline.column import Bytes, Objects, Ragged
from feedline.graph.node import Node
from feedline.structure import Structure

_known: WeakKeyDictionary[Node, str] = (
    WeakKeyDictionary()
)  # a node does not change, and its arrays may be large


def fingerprint(node: Node) -> str:
    """32 hexadecimal digits."""
    if node not in _known:
        _known[node] = _digest(node)
    return _known[node]


def _digest(node: Node) -> str:
    text = json.dumps(describe(node), sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def describe(value: Any) -> Any:
    """A value as JSON: equal for equal values, and different, as far as can be told, for others."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list):
        return [type(value).__name__, *map(describe, value)]
    if isinstance(value, dict):
        return ["dict", *([describe(key), describe(item)] for key, item in value.items())]
    if isinstance(value, bytes):
        return ["bytes", value.hex()]
    if isinstance(value, np.dtype | np.generic):
        return [type(value).__name__, str(value)]
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return ["array", list(value.shape), *map(describe, value.ravel().tolist())]
        data = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
        return ["array", str(value.dtype), list(value.shape), _native.crc32c(data)]
    if isinstance(value, Ragged):
        return ["Ragged", describe(value.values), describe(value.offsets)]
    if isinstance(value, Bytes):
        return ["Bytes", list(value.shape), describe(value.normal().data), describe(value.normal().offsets)]
    if isinstance(value, Objects):
        return ["Objects", *map(describe, value.items)]
    if isinstance(value, Block):
        return ["Block", value.rows, describe(value.structure), *map(describe, value.columns)]
    if isinstance(value, Structure):
        return ["Structure", value.to_json()]
    if is_dataclass(value) and not isinstance(value, type):
        parts = {one.name: describe(getattr(value, one.name)) for one in fields(value) if one.compare}
        return [type(value).__name__, parts]
    if isinstance(value, partial):
        return ["partial", describe(value.func), describe(value.args), describe(value.keywords)]
    return _by_name(value)


def _by_name(value: Any) -> Any:
    if hasattr(value, "__self__") and hasattr(value, "__func__"):
        return ["method", describe(value.__func__), describe(value.__self__)]
    named = value if hasattr(value, "__qualname__") else type(value)
    code = getattr(value, "__code__", None)
    return ["name", named.__module__, named.__qualname__, _code(code) if isinstance(code, CodeType) else None]


def _code(code: CodeType) -> str:
    """A digest of what a function does; of its closure, only the names."""
    parts = (code.co_code.hex(), _constant(code.co_consts), code.co_names, code.co_varnames, code.co_freevars)
    return hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()


def _constant(value: Any) -> str:
    if isinstance(value, CodeType):
        return _code(value)
    if isinstance(value, tuple):
        return f"({','.join(map(_constant, value))})"
    if isinstance(value, frozenset):
        return (
            f"{{{','.join(sorted(map(_constant, value)))}}}"  # its own order is another one in each process
        )
    return repr(value)

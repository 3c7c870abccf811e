"""The key of a pipeline for positions in it: the same for the same steps, arguments and functions.

It is less than the fingerprint: functions count by name and code, objects by their class, files by their
paths. What these hold may change while an iteration goes on, and its positions must be good all the same. And
it is more: steps that only change how the others run count, because they have positions of their own.
"""

from __future__ import annotations

import hashlib
from dataclasses import fields, is_dataclass
from types import FunctionType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from feedline import _native
from feedline.graph.fingerprint.texts import Texts
from feedline.graph.node import Node, tree

_keys: WeakKeyDictionary[Node, str] = (
    WeakKeyDictionary()
)  # a node does not change, and its arrays may be large


def position_key(node: Node) -> str:
    """32 hexadecimal digits. It is never refused."""
    for each in reversed(tree(node)):  # inputs first, so that a long pipeline needs no deep recursion
        if each not in _keys:
            _keys[each] = _key(each)
    return _keys[node]


def _key(node: Node) -> str:
    if node.keeps_positions:
        (input,) = node.inputs
        return _keys[input]
    texts = _Own()
    parts = [type(node).__name__]
    for each in fields(node):
        value = getattr(node, each.name)
        try:
            parts += [f"{each.name} {texts.text(value)}"] if each.compare else []
        except Exception:  # of a user's object that fails when it is looked at, or is too deep
            parts.append(f"{each.name} {type(value).__name__}")
    return hashlib.blake2b("\n".join(parts).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class _Own(Texts):
    """What values are by themselves."""

    def function(self, function: FunctionType) -> str:
        return f"{function.__name__} {self.text(function.__code__)}"

    def user_class(self, kind: type) -> str:
        return kind.__name__

    def pipeline(self, node: Node) -> str:
        return position_key(node)

    def bytes_of(self, array: Any) -> str:
        # Many times as fast as a digest, and here a mistake is not one that goes unnoticed for long.
        return f"{_native.crc32c(np.ascontiguousarray(array).reshape(-1).view(np.uint8)):08x}"

    def _object(self, value: Any) -> str:
        if not is_dataclass(value):
            return type(value).__name__
        counted = (
            f"{each.name}={self.text(getattr(value, each.name))}" for each in fields(value) if each.compare
        )
        return f"{type(value).__name__}({', '.join(counted)})"

"""A value as text: the same for equal values in any process, another for others.

The text of a large value ends in a digest. A value that does not tell what it is (an open file, a lock) is a
problem, and stands there by its type. What functions and classes are is left to subclasses.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import _lru_cache_wrapper, partial
from pathlib import PurePath
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MethodType,
    MethodWrapperType,
    ModuleType,
)
from typing import Any

import numpy as np

from feedline.block import Block
from feedline.column import Bytes, Objects, Ragged
from feedline.graph.fingerprint.code import code_text
from feedline.graph.fingerprint.objects import arrays_of, content_of, digest
from feedline.graph.fingerprint.origin import is_library_class, is_library_module, is_library_name, is_ours
from feedline.graph.fingerprint.reached import Absent, Library
from feedline.graph.fingerprint.remembered import digest_of_array
from feedline.graph.node import Node
from feedline.structure import Structure
from feedline.tracebacks import unguarded

_LONGEST = 100  # characters of a text
_INLINE = 8  # numbers of an array that are shown

_PLAIN = {type(None), bool, int, float, str}  # Python's own text of these is what is wanted


def shortened(text: str) -> str:
    """The text, or its beginning and a digest of all."""
    if len(text) <= _LONGEST:
        return text
    return f"{text[:24]}... {digest(text.encode('utf-8', 'surrogatepass'))}"


class Texts(ABC):
    def __init__(self) -> None:
        self._done: dict[int, tuple[Any, str]] = {}  # by id, with the values, so that no other has it
        self._open: dict[int, int] = {}  # those that are being told, and how deep they are
        self.large: set[int] = set()  # ids of those whose text is not all there is to tell
        self.path: list[str] = []  # to the one that is being told, from the one that was asked for

    # For subclasses

    @abstractmethod
    def function(self, function: FunctionType) -> str: ...

    @abstractmethod
    def user_class(self, kind: type) -> str: ...

    @abstractmethod
    def pipeline(self, node: Node) -> str: ...

    def uses(self, module: str) -> None:  # noqa: B027  (not all care)
        """Something of a library's module counts by its name."""

    def problem(self, what: str) -> None:  # noqa: B027  (not all care)
        """Something does not tell what it is."""

    # Values

    def text(self, value: Any) -> str:
        kind = type(value)
        if kind in _PLAIN:
            return _plain(value)
        key = id(value)
        if key in self._done:
            return self._done[key][1]
        if key in self._open:
            return f"<as {len(self._open) - self._open[key]} further up>"
        self._open[key] = len(self._open)
        try:
            told = self._told(value)
        finally:
            del self._open[key]
        made = shortened(told)
        if made is not told:
            self.large.add(key)
        self._done[key] = (value, made)
        return made

    def _told(self, value: Any) -> str:
        for tell in (self._container, self._numpy, self._callable, self._of_python, self._of_feedline):
            told = tell(value)
            if told is not None:
                return told
        return self._object(value)

    def _container(self, value: Any) -> str | None:
        if isinstance(value, set | frozenset):
            told = sorted(map(self.text, sorted(value, key=self._rank)))
            return f"{self._class(type(value))}({{{', '.join(told)}}})"
        if type(value) is dict or isinstance(value, MappingProxyType):
            return _at_once(value, (value, value.values())) or "{" + self._pairs(value.items()) + "}"
        if type(value) is list:
            return _at_once(value, (value,)) or f"[{', '.join(map(self.text, value))}]"
        if type(value) is tuple:
            comma = "," if len(value) == 1 else ""
            return _at_once(value, (value,)) or f"({', '.join(map(self.text, value))}{comma})"
        if type(value) in (bytes, bytearray):
            is_short = len(value) <= _INLINE * 4
            return repr(value) if is_short else f"{type(value).__name__}[{len(value)}] {digest(value)}"
        return None

    def _rank(self, value: Any) -> str:
        """In a set, what may be given a number comes in an order of its own."""
        code = getattr(value, "__code__", None)
        return f"{getattr(value, '__qualname__', '')} {self.text(code) if isinstance(code, CodeType) else ''}"

    def _pairs(self, items: Iterable[tuple[Any, Any]]) -> str:
        return ", ".join(f"{self.text(key)}: {self._at(_index(key), value)}" for key, value in items)

    def _at(self, step: str, value: Any) -> str:
        self.path.append(step)
        told = self.text(value)
        self.path.pop()
        return told

    def _numpy(self, value: Any) -> str | None:
        if isinstance(value, np.dtype):
            return repr(value)
        if isinstance(value, np.generic) and value.dtype.kind in "biufc":
            return f"np.{value.dtype.name}({value.item()!r})"
        arrays = arrays_of(value)
        return None if arrays is None else f"{type(value).__name__} {', '.join(map(self._array, arrays))}"

    def _array(self, array: Any) -> str:
        if not array.dtype.isnative:  # the order of bytes is not kept when it is pickled
            array = array.astype(array.dtype.newbyteorder("="))
        kind = f"{array.dtype.name}[{', '.join(map(str, array.shape))}]"
        if array.dtype.names is not None:  # between the fields may be bytes that nobody set
            return kind + self._pairs((name, array[name]) for name in array.dtype.names)
        if array.dtype.hasobject or (array.dtype.kind in "biuf" and array.size <= _INLINE):
            return f"{kind} {self.text(array.ravel().tolist())}"
        return f"{kind} {self.bytes_of(array)}"

    def bytes_of(self, array: Any) -> str:
        return digest_of_array(array)

    def _callable(self, value: Any) -> str | None:
        if isinstance(value, FunctionType):
            return self.function(unguarded(value))
        if isinstance(value, type):
            return self._class(value)
        if type(value) is partial:
            held = ", ".join(map(self.text, (value.func, *value.args)))
            return f"partial({held}, {self._pairs(value.keywords.items())})"
        if isinstance(value, _lru_cache_wrapper):
            return f"cached {self.text(value.__wrapped__)}"
        if isinstance(value, MethodType):
            return f"{self.text(value.__self__)}.{value.__name__} {self.text(value.__func__)}"
        if isinstance(value, np.ufunc):
            return self._ufunc(value)
        if isinstance(value, BuiltinFunctionType | MethodWrapperType):
            owner: Any = getattr(value, "__self__", None)
            if owner is not None and not isinstance(owner, ModuleType):
                return f"{self.text(owner)}.{value.__name__}"
        if found_by_name(value):  # of C, or of what compiles to it
            if is_library_name(module_of(value)):
                return self.named(value)
            self.problem(f"is {value.__qualname__}, whose code is not Python's")
            return str(value.__qualname__)
        return None

    def named(self, value: Any) -> str:
        """A function or a class of a library."""
        module = module_of(value)
        self.uses(module)
        return f"{module}.{value.__qualname__}"

    def _class(self, kind: type) -> str:
        if not is_library_class(kind):
            return self.user_class(kind)
        return kind.__qualname__ if kind.__module__ == "builtins" else self.named(kind)

    def _ufunc(self, value: Any) -> str:
        name = str(value.__name__)
        for module in ("numpy", "scipy.special"):
            if getattr(sys.modules.get(module), name, None) is value:
                self.uses(module)
                return f"{module}.{name}"
        self.problem("is a ufunc, which does not tell what it does")
        return "ufunc"

    def _of_python(self, value: Any) -> str | None:
        if isinstance(value, CodeType):
            return f"code {digest(code_text(value, self.text).encode('utf-8', 'surrogatepass'))}"
        if isinstance(value, ModuleType):
            if is_library_module(value):
                self.uses(value.__name__)
            else:  # where it can be told what is used of it, that is told instead
                self.problem(f"is the module {value.__name__} as a whole")
            return f"module {value.__name__}"
        if isinstance(value, Library):
            self.uses(value.name)
            return f"module {value.name}"
        if isinstance(value, Absent):
            return "not there"
        if isinstance(value, logging.Logger):  # its name is that of a module, and no element depends on it
            return "logger"
        if value is os.environ:  # as where it is asked of the module: what it holds is another in each run
            return "os.environ"
        if isinstance(value, PurePath):
            return f"{type(value).__name__}({str(value)!r})"
        if isinstance(value, re.Pattern):
            return f"re.compile({value.pattern!r}, {value.flags})"
        if isinstance(value, Enum):
            return f"{self._class(type(value))}.{value.name}({self.text(value.value)})"
        return None

    def _of_feedline(self, value: Any) -> str | None:
        if isinstance(value, Node):
            return self.pipeline(value)
        if isinstance(value, Ragged):
            return f"Ragged({self.text(value.values)}, {self.text(value.offsets)})"
        if isinstance(value, Bytes):
            normal = value.normal()
            return f"Bytes({list(value.shape)}, {self.text(normal.data)}, {self.text(normal.offsets)})"
        if isinstance(value, Objects):
            return f"Objects({', '.join(map(self.text, value.items))})"
        if isinstance(value, Block):
            columns = ", ".join(map(self.text, value.columns))
            return f"Block({value.rows}, {self.text(value.structure)}, {columns})"
        if isinstance(value, Structure):
            return f"Structure({self.text(value.to_json())})"
        if is_ours(type(value).__module__) and is_dataclass(value):
            counted = [(one.name, getattr(value, one.name)) for one in fields(value) if one.compare]
            return f"{type(value).__name__}({', '.join(f'{name}={self.text(one)}' for name, one in counted)})"
        return None

    def _object(self, value: Any) -> str:
        """As it would be pickled for a worker: that is all that could count there."""
        content = content_of(value)
        if content is None:
            return self._opaque(value)
        made, attributes, items = content
        told = [self.text(one) for one in made]
        told += [f"{name}={self._at(f'.{name}', one)}" for name, one in attributes]
        told += [self.text(one) for one in items]
        return f"{self._class(type(value))}({', '.join(told)})"

    def _opaque(self, value: Any) -> str:
        kind = type(value)
        self.problem(f"is a {kind.__module__}.{kind.__qualname__}".replace("builtins.", ""))
        return f"a {kind.__qualname__}"


def module_of(value: Any) -> str:
    owner = getattr(value, "__objclass__", None)  # of a method of C's
    return str(getattr(value, "__module__", None) or getattr(owner, "__module__", "builtins"))


def found_by_name(value: Any) -> bool:
    """Does its module have it under its name?"""
    name = getattr(value, "__qualname__", None)
    found: Any = sys.modules.get(module_of(value))
    for part in name.split(".") if isinstance(name, str) else ("",):
        found = getattr(found, part, None)
    return found is value


def _plain(value: Any) -> str:
    try:
        return repr(value)
    except ValueError:  # an int of thousands of digits
        return hex(value)


def _index(key: Any) -> str:
    return f"[{key!r}]" if isinstance(key, str) else "[...]"


def _at_once(value: Any, members: Iterable[Iterable[Any]]) -> str | None:
    """The text of a container of plain values: a vocabulary may have a million."""
    if type(value) not in (dict, list, tuple) or any(set(map(type, one)) - _PLAIN for one in members):
        return None
    try:
        return repr(value)
    except ValueError:
        return None

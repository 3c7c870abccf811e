"""What a function or a class reaches: the values that its results may depend on, each with a name."""

from __future__ import annotations

import builtins
import enum
import importlib
import inspect
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from importlib.util import find_spec
from types import FunctionType, GetSetDescriptorType, MemberDescriptorType, ModuleType
from typing import Any, TypeAlias

from feedline.graph.fingerprint.code import imports, loads, nested
from feedline.graph.fingerprint.origin import is_library_module

Named: TypeAlias = tuple[str, Any]


class Absent:
    """In place of a value that is not there (yet)."""


class Library:
    """In place of a module that need not be imported to tell its version."""

    def __init__(self, name: str) -> None:
        self.name = name


class Whole:
    """In place of a module of the user's of which it cannot be told what is used."""

    def __init__(self, module: str) -> None:
        self.module = module


ABSENT = Absent()

# They tell where the code is, and how it was started.
_OF_MODULES = {"__name__", "__file__", "__doc__", "__package__", "__spec__", "__loader__", "__cached__"} | {
    "__path__",
    "__builtins__",
}

# They tell where a class is, or what the interpreter and others noted in it.
_OF_CLASSES = {"__module__", "__qualname__", "__doc__", "__dict__", "__weakref__", "__slotnames__"} | {
    "__firstlineno__",
    "__static_attributes__",
    "__annotations__",  # told apart, as it may not be there before it was asked for
    "__annotate__",
    "__annotate_func__",
    "__annotations_cache__",
    "__dataclass_fields__",
    "__dataclass_params__",
    "__struct_config__",
    "__abstractmethods__",
    "_abc_impl",
}


def reached_by_function(function: FunctionType) -> Iterator[Named]:
    """All, of a function of the user's."""
    yield from bound_in(function)
    yield from _globals(function)
    yield from _imports(function)


def bound_in(function: FunctionType) -> Iterator[Named]:
    """What the function holds by itself."""
    code = function.__code__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield f"closure {name}", cell.cell_contents
        except ValueError:
            yield f"closure {name}", ABSENT
    defaults = function.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]
    for name, value in [*zip(names, defaults, strict=True), *sorted((function.__kwdefaults__ or {}).items())]:
        yield f"default {name}", value
    for name, value in sorted(vars(function).items()):
        if name != "__wrapped__":  # it is called by way of the closure, if it is
            yield f"attribute {name}", value


def _globals(function: FunctionType) -> Iterator[Named]:
    names = {name for each in nested(function.__code__) for name in each.co_names}
    found: dict[str, Any] = {}
    for name, attributes in loads(function.__code__):
        if name in _OF_MODULES:
            continue
        value = function.__globals__.get(name, ABSENT)
        if value is not ABSENT:
            found |= _through(name, value, attributes, names)
        elif not hasattr(builtins, name):
            found[name] = ABSENT
    for path, value in sorted(found.items()):
        yield f"global {path}", value


def _through(path: str, value: Any, attributes: tuple[str, ...], names: set[str]) -> dict[str, Any]:
    """What is used of a value, by the path to it: of the user's modules only what is asked of them.

    Where a module is not asked for something at once, it may be for any of the `names`.
    """
    while isinstance(value, ModuleType) and not is_library_module(value):
        if not attributes:
            return _by_names(path, value, names)
        path, value = f"{path}.{attributes[0]}", getattr(value, attributes[0], ABSENT)
        attributes = attributes[1:]
    return {path: value}


def _by_names(path: str, module: ModuleType, names: set[str]) -> dict[str, Any]:
    known = {name: value for name, value in vars(module).items() if name in names - _OF_MODULES}
    found: dict[str, Any] = {}
    for name, value in known.items():
        if not isinstance(value, ModuleType) or is_library_module(value):
            found[f"{path}.{name}"] = value
        elif value is not module:
            found |= _by_names(f"{path}.{name}", value, names - {name})
    return found or {path: Whole(module.__name__)}


def _imports(function: FunctionType) -> Iterator[Named]:
    names = {name for each in nested(function.__code__) for name in each.co_names}
    for module, taken in imports(function.__code__, function.__globals__.get("__package__")):
        top = module.partition(".")[0]
        found = sys.modules.get(top) or _found(top)
        if found is ABSENT:
            yield f"import {module}", ABSENT
        elif is_library_module(found):
            yield f"import {module}", Library(top)
        else:
            imported = _imported(module)
            used: dict[str, Any] = {} if taken else _through(top, sys.modules.get(top, ABSENT), (), names)
            for name in taken:
                value = getattr(imported, name, ABSENT)
                value = _imported(f"{module}.{name}") if value is ABSENT else value
                used |= _through(f"{module}.{name}", value, (), names)
            for path, value in sorted(used.items()):
                yield f"import {path}", value


def _imported(module: str) -> Any:
    """As the function will do, so that it is the same before and after the first call."""
    try:
        return importlib.import_module(module)
    except Exception:
        return ABSENT


def _found(top: str) -> Any:
    """A package that is not imported yet: a library's is not, because that may take long."""
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        return ABSENT
    module = ModuleType(top)
    module.__spec__, module.__file__ = spec, spec.origin
    module.__path__ = list(spec.submodule_search_locations or ())
    return module


def reached_by_class(kind: type) -> Iterator[Named]:
    """What a class of the user's has of its own, each by its name."""
    with suppress(Exception):  # some have names that are not there
        if annotations := inspect.get_annotations(kind):
            yield "annotations", annotations
    if issubclass(kind, enum.Enum):
        for name, member in kind.__members__.items():
            yield name, member.value
    for name, value in sorted(vars(kind).items()):
        if name in _OF_CLASSES or isinstance(value, MemberDescriptorType | GetSetDescriptorType):
            continue
        if issubclass(kind, enum.Enum) and not isinstance(value, _OF_METHODS):
            continue  # its members, in several forms
        if isinstance(value, property):
            methods = {"get": value.fget, "set": value.fset, "delete": value.fdel}
            yield from ((f"{name} ({what})", one) for what, one in methods.items() if one is not None)
        elif isinstance(value, staticmethod | classmethod):
            yield f"{name} ({type(value).__name__})", value.__func__
        elif isinstance(value, cached_property):
            yield name, value.func
        else:
            yield name, value


_OF_METHODS = (FunctionType, property, staticmethod, classmethod, cached_property)

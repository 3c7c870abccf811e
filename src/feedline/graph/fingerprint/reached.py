"""What a function or a class reaches: the values that its results may depend on, each with a name."""

from __future__ import annotations

import builtins
import enum
import importlib
import inspect
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cached_property
from importlib.util import find_spec
from operator import itemgetter
from types import CodeType, FunctionType, GetSetDescriptorType, MemberDescriptorType, ModuleType
from typing import Any, TypeAlias

from feedline.graph.fingerprint.code import imports, loads, loads_of
from feedline.graph.fingerprint.origin import is_library_module

Named: TypeAlias = tuple[str, Any]


class Absent:
    """In place of a value that is not there (yet)."""


class Library:
    """In place of a module that need not be imported to tell its version."""

    def __init__(self, name: str) -> None:
        self.name = name


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
            value = cell.cell_contents
        except ValueError:
            value = ABSENT
        yield from _variable("closure", name, value, code)
    defaults = function.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]
    for name, value in [*zip(names, defaults, strict=True), *sorted((function.__kwdefaults__ or {}).items())]:
        yield from _variable("default", name, value, code)
    for name, value in sorted(vars(function).items()):
        if name != "__wrapped__":  # it is called by way of the closure, if it is
            yield f"attribute {name}", value


def _variable(what: str, name: str, value: Any, code: CodeType) -> Iterator[Named]:
    for path, one in _used(name, value, loads_of(code, name) if isinstance(value, ModuleType) else ()):
        yield f"{what} {path}", one


def _globals(function: FunctionType) -> Iterator[Named]:
    found: dict[str, Any] = {}
    for name, attributes in loads(function.__code__):
        if name in _OF_MODULES:
            continue
        value = function.__globals__.get(name, ABSENT)
        if value is not ABSENT:
            found |= dict(_used(name, value, [attributes]))
        elif not hasattr(builtins, name):
            found[name] = ABSENT
    for path, value in sorted(found.items()):
        yield f"global {path}", value


def _used(path: str, value: Any, asked: Iterable[tuple[str, ...]]) -> list[Named]:
    """What is used of a value, by the path to it: of the user's modules only what is asked of them at once.

    A module that is not asked for something, but passed on, is used as a whole.
    """
    found: dict[str, Any] = {}
    for attributes in asked or [()]:
        name, one = path, value
        for attribute in attributes:
            if not isinstance(one, ModuleType) or is_library_module(one):
                break
            name, one = f"{name}.{attribute}", getattr(one, attribute, ABSENT)
        found[name] = one
    return sorted(found.items(), key=itemgetter(0))


def _imports(function: FunctionType) -> Iterator[Named]:
    for module, of, asked in imports(function.__code__, function.__globals__.get("__package__")):
        top = module.partition(".")[0]
        found = sys.modules.get(top) or _found(top)
        if found is ABSENT:
            yield f"import {module}", ABSENT
        elif is_library_module(found):
            yield f"import {module}", Library(top)
        else:
            path, value = module, _imported(module)
            if of is None:
                path, value = top, sys.modules.get(top, ABSENT)
            elif of:
                path, value = f"{module}.{of}", getattr(value, of, ABSENT)
                value = _imported(path) if value is ABSENT else value
            for name, one in _used(path, value, asked):
                yield f"import {name}", one


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

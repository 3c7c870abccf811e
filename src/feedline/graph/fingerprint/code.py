"""What a code object does, and the names it looks up: nothing of where it stands, or of how it is laid out.

Instructions are taken with what they mean (a constant, a name, the instruction jumped to) instead of with
their numbers. So a docstring, which is a constant among others, moves nothing.
"""

from __future__ import annotations

import dis
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from importlib.util import resolve_name
from types import CodeType
from typing import Any, NamedTuple

# *args, **kwargs, generators and coroutines. The others tell how it was compiled.
_FLAGS = 0x04 | 0x08 | 0x20 | 0x80 | 0x100 | 0x200

# They are there for line numbers and for the interpreter's own use.
_SILENT = {"NOP", "CACHE", "EXTENDED_ARG", "PUSH_NULL"}

# `module.f(x)` is compiled in one way where the same file imports the module, and in another where it does
# not, as in another cell of a notebook.
_THE_SAME = {"LOAD_METHOD": "LOAD_ATTR"}

# What the body of a class says of itself first: where it is, and its docstring.
_OF_CLASS_BODIES = {"__module__", "__qualname__", "__doc__", "__firstlineno__"}

_JUMPS = {*dis.hasjrel, *dis.hasjabs}
_GLOBALS = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}
_LOCALS = {"LOAD_FAST", "LOAD_FAST_BORROW", "LOAD_FAST_CHECK"}
_CELLS = {"LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"}
_ATTRIBUTES = {"LOAD_ATTR", "LOAD_METHOD"}


def code_text(code: CodeType, constant: Callable[[Any], str]) -> str:
    """All that counts of the code. `constant` gives the text of one, which may be code again."""
    instructions = _kept(code)
    starts = [each.offset for each in instructions]
    lines = []
    for each in instructions:
        if each.opcode in _JUMPS:
            meant = str(bisect_left(starts, each.argval))
        elif each.opcode in dis.hasconst:
            meant = constant(each.argval)
        else:
            meant = "" if each.arg is None else str(each.argval)
        lines.append(f"{_THE_SAME.get(each.opname, each.opname)} {meant}")
    handlers: Any = dis.Bytecode(code)
    for entry in handlers.exception_entries:
        places = [bisect_left(starts, place) for place in (entry.start, entry.end, entry.target)]
        lines.append(f"except {places} {entry.depth} {entry.lasti}")
    flags = code.co_flags & _FLAGS
    taken = code.co_argcount + code.co_kwonlyargcount + bool(flags & 0x04) + bool(flags & 0x08)
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, flags)
    return "\n".join([f"{counts} {code.co_varnames[:taken]}", *lines])


def _kept(code: CodeType) -> list[dis.Instruction]:
    """The instructions that count."""
    kept: list[dis.Instruction] = []
    for each in dis.get_instructions(code):
        if each.opname in _SILENT:
            continue
        if each.opname == "STORE_NAME" and each.argval in _OF_CLASS_BODIES and kept:
            kept.pop()  # what is stored
            continue
        kept.append(each)
    return kept


class Load(NamedTuple):
    """A global that is looked up, and the attributes that are asked of it at once."""

    name: str
    attributes: tuple[str, ...]


def loads(code: CodeType) -> list[Load]:
    """Of the code and all that is nested in it, sorted."""
    return sorted({load for each in nested(code) for load in _loads(each, _GLOBALS)})


def loads_of(code: CodeType, variable: str) -> list[tuple[str, ...]]:
    """The attributes that are asked at once of a local variable of the code, each time it is looked up."""
    found: set[tuple[str, ...]] = set()
    for each in nested(code):
        is_cell = variable in (*each.co_cellvars, *each.co_freevars)
        # What is in a cell is not looked up by instructions for other variables: they hand the cell on.
        kinds = _CELLS if is_cell else _LOCALS if each is code else set()
        found |= {attributes for name, attributes in _loads(each, kinds) if name == variable}
    return sorted(found)


def _loads(code: CodeType, kinds: set[str]) -> Iterator[Load]:
    """What instructions of these kinds look up."""
    name, attributes = "", []
    for kind, argument in _singly(code):
        if name and kind in _ATTRIBUTES:
            attributes.append(argument)
            continue
        if name:
            yield Load(name, tuple(attributes))
        name, attributes = (argument if kind in kinds else ""), []


def _singly(code: CodeType) -> Iterator[tuple[str, Any]]:
    """The instructions and their arguments, two where the interpreter has joined them."""
    for one in dis.get_instructions(code):
        if isinstance(one.argval, tuple) and "_FAST" in one.opname:
            yield from zip(re.findall("(?:LOAD|STORE)_FAST", one.opname), one.argval, strict=True)
        elif one.opname not in _SILENT:
            yield one.opname, one.argval


class Import(NamedTuple):
    """A module that is imported, or what is taken `of` it; and the attributes that are asked of that at once.

    Without `of` it is the topmost package that the code gets, if the module is in one.
    """

    module: str
    of: str | None
    asked: tuple[tuple[str, ...], ...]


def imports(code: CodeType, package: str | None) -> list[Import]:
    """What is imported while it runs, with the full names of modules."""
    found: set[Import] = set()
    for each in nested(code):
        before: list[Any] = [None, None]  # how many packages up, and what is taken from it
        module, names, of = "", None, None
        for kind, argument in _singly(each):
            if kind == "IMPORT_NAME":
                level, names = before
                module = "." * level + argument
                module = resolve_name(module, package) if level and package else module
                of = None
            elif kind == "IMPORT_FROM":
                # Of `import a.b as c`, this is how the module in the package is found.
                of = argument if names else ""
            elif kind.startswith("STORE_") and module and (of is not None or not names):
                where = {"STORE_FAST": each, "STORE_DEREF": code}.get(kind)
                asked = loads_of(where, argument) if where else []  # of others, anyone may ask anything
                found.add(Import(module, of, tuple(asked)))
                module, of = (module if names else ""), None
            before = [before[1], argument]
    return sorted(found, key=str)


def nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from nested(each)

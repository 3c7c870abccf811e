"""What a code object does, and the names it looks up: nothing of where it stands, or of how it is laid out.

Instructions are taken with what they mean (a constant, a name, the instruction jumped to) instead of with
their numbers. So a docstring, which is a constant among others, moves nothing.
"""

from __future__ import annotations

import dis
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
    found: set[Load] = set()
    for each in nested(code):
        name, attributes = "", []
        for one in dis.get_instructions(each):
            if name and one.opname in _ATTRIBUTES:
                attributes.append(one.argval)
            elif one.opname not in _SILENT:
                found |= {Load(name, tuple(attributes))} if name else set()
                name, attributes = (one.argval if one.opname in _GLOBALS else ""), []
    return sorted(found)


def imports(code: CodeType, package: str | None) -> list[Load]:
    """The modules that are imported while it runs, by their full names, and what is taken from them."""
    found: set[Load] = set()
    for each in nested(code):
        before: list[Any] = [None, None]  # how many packages up, and what is taken from it
        for one in dis.get_instructions(each):
            if one.opname == "IMPORT_NAME":
                level, names = before
                module = "." * level + one.argval
                module = resolve_name(module, package) if level and package else module
                found.add(Load(module, tuple(names or ())))
            if one.opname not in _SILENT:
                before = [before[1], one.argval]
    return sorted(found)


def nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from nested(each)

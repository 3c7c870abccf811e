"""Do the datasets that a step makes draw random numbers without a seed?

Such a step (interleave, group_by_window) draws a seed for them, another one in each process. If they use it,
two clients cannot share their blocks. The functions are not called to find out: their code is looked at, and
where that does not tell, they do.
"""

from __future__ import annotations

from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

from feedline.graph import Node
from feedline.graph.fingerprint.origin import is_library_code, is_library_module, is_ours
from feedline.graph.fingerprint.reached import reached_by_function
from feedline.graph.fingerprint.steps import users_functions

# The methods of a Dataset that draw a seed where none is given, and what could hide one of them.
_DRAWING = {"shuffle", "random", "sample_from_datasets", "list_files", "interleave", "flat_map"} | {
    "group_by_window",
    "bucket_by_sequence_length",
    "apply",
    "getattr",
    "eval",
    "exec",
    "__import__",
}


def makes_drawing(step: Node) -> bool:
    """Of feedline's own functions, none makes such a dataset."""
    seen: dict[int, Any] = {}
    return any(_may_draw(function, seen) for function in users_functions(step))


def _may_draw(value: Any, seen: dict[int, Any]) -> bool:
    if id(value) in seen:
        return False
    seen[id(value)] = value
    if isinstance(value, FunctionType) and not is_ours(value.__module__):
        if is_library_code(value.__code__, value.__globals__):
            return True
        names = _names(value.__code__)
        return bool(names & _DRAWING) or any(_may_draw(one, seen) for _, one in reached_by_function(value))
    if isinstance(value, ModuleType):
        return not is_library_module(value)
    kind = value if isinstance(value, type) else type(value)
    return callable(value) and not isinstance(value, BuiltinFunctionType) and not is_ours(kind.__module__)


def _names(code: CodeType) -> set[str]:
    inner = (one for one in code.co_consts if isinstance(one, CodeType))
    return set(code.co_names).union(*map(_names, inner))

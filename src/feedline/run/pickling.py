"""Jobs as bytes: functions by value where another process could not import them.

It is imported only when a worker is: cloudpickle takes a while.
"""

from __future__ import annotations

import functools
import io
import sys
from importlib.machinery import PathFinder
from types import ModuleType
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

loads = cloudpickle.loads


def dumps(value: Any, *functions: Any) -> bytes:
    """Pickle the value. `functions` are the user's in it: only this process may have their modules."""
    found = {getattr(function, "__module__", None) or "" for function in functions}
    modules = [sys.modules[name] for name in sorted(found) if name in sys.modules]
    local = [module for module in modules if not _can_be_imported(module)]
    for module in local:
        cloudpickle.register_pickle_by_value(module)
    try:
        return _dumps(value)
    finally:
        for module in local:
            cloudpickle.unregister_pickle_by_value(module)


def _dumps(value: Any) -> bytes:
    out = io.BytesIO()
    _Pickler(out).dump(value)
    return out.getvalue()


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    def reducer_override(self, value: Any) -> Any:
        # A function with a cache has a name, by which it would be looked for in the worker's own __main__.
        if isinstance(value, _Cached) and value.__module__ == "__main__":
            return _cached, (value.__wrapped__, value.cache_parameters())
        return super().reducer_override(value)


_Cached = functools._lru_cache_wrapper


def _cached(function: Any, parameters: dict[str, Any]) -> Any:
    return functools.lru_cache(**parameters)(function)


def _can_be_imported(module: ModuleType) -> bool:
    """Would a worker, which looks where this process does, find the same module by its name?"""
    if module.__name__ == "__main__":
        return True  # it would not, and cloudpickle knows that
    file = getattr(module, "__file__", None)
    if file is None:
        return module.__name__ in sys.builtin_module_names
    parent = sys.modules.get(module.__name__.rpartition(".")[0])
    try:
        found = PathFinder.find_spec(module.__name__, getattr(parent, "__path__", None))
    except (ImportError, ValueError):
        return False
    return found is not None and found.origin == file

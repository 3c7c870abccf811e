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


def dumps(value: Any, function: Any = None) -> bytes:
    """Pickle the value. `function` is the user's in it: its module may be one that only this process has."""
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    if module is None or _can_be_imported(module):
        return _dumps(value)
    cloudpickle.register_pickle_by_value(module)
    try:
        return _dumps(value)
    finally:
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

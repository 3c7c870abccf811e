"""Whose something is: the user's own, which counts by what it does, or a library's, by name and version.

A library is what is installed: Python's own, site-packages, feedline. All other code is the user's, a package
of theirs that is installed to be edited too.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Mapping
from functools import lru_cache
from types import CodeType, ModuleType
from typing import Any

_MADE_WHILE_RUNNING = 1 << 9  # Py_TPFLAGS_HEAPTYPE
_INSTALLED = {"site-packages", "dist-packages"}
_LIBRARIES = tuple(os.path.join(sysconfig.get_paths()[key], "") for key in ("stdlib", "platstdlib"))


def is_library_module(module: ModuleType) -> bool:
    if is_ours(module.__name__) or module.__name__ == "__main__":
        return module.__name__ != "__main__"
    origin = getattr(getattr(module, "__spec__", None), "origin", None)
    file = getattr(module, "__file__", None)
    if file is None:
        if module.__name__ in sys.builtin_module_names or origin in ("built-in", "frozen"):
            return True
        file = next(iter(getattr(module, "__path__", ())), None)  # of a package without an __init__.py
    return file is not None and _is_library_file(file)


def is_library_code(code: CodeType, globals_: dict[str, Any]) -> bool:
    file = code.co_filename
    if file.startswith("<doctest"):  # in which the names are those of the module that is tested
        return False
    if file.startswith("<"):  # made by `exec`, say for a dataclass, or typed in
        return file.startswith("<frozen") or is_library_name(globals_.get("__name__"))
    return is_ours(globals_.get("__name__")) or _is_library_file(file)


def is_library_name(module: Any) -> bool:
    """Of the name of a module, as classes and functions have it."""
    if is_ours(module):
        return True
    # Of a function that came from another process, __main__ is not this one's.
    found = None if module == "__main__" else sys.modules.get(str(module))
    return found is not None and is_library_module(found)


def is_library_class(kind: type) -> bool:
    if kind.__module__ == "builtins":  # or made by `exec` where there is no __name__
        return not kind.__flags__ & _MADE_WHILE_RUNNING
    return is_library_name(kind.__module__)


def is_ours(module: Any) -> bool:
    return isinstance(module, str) and (module == "feedline" or module.startswith("feedline."))


@lru_cache(maxsize=4096)
def _is_library_file(path: str) -> bool:
    return path.startswith(_LIBRARIES) or not _INSTALLED.isdisjoint(path.split(os.sep))


def library_of(module: str) -> str:
    """The name under which its version is told: that of the topmost package."""
    top = module.partition(".")[0]
    return "python" if top in sys.stdlib_module_names or top == "builtins" else top


@lru_cache
def _distributions() -> Mapping[str, list[str]]:
    """By the names of their packages. To gather them takes a good part of a second."""
    from importlib import metadata

    return metadata.packages_distributions()


def version_of(library: str) -> str:
    """As its distribution has it, or else the module itself.

    >>> version_of("python").count(".")
    1
    """
    if library == "python":
        return f"{sys.version_info[0]}.{sys.version_info[1]}"
    from importlib import metadata  # here, because it takes as long to import as all of feedline

    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        names = _distributions().get(library, [])  # PIL is Pillow's
    if names:
        return ", ".join(metadata.version(name) for name in sorted(set(names)))
    return str(getattr(sys.modules.get(library), "__version__", "unknown"))

"""Importing a framework, or saying how to install it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from feedline.errors import MissingDependency


def need(module: str, what: str, extra: str) -> Any:
    """The module; `what` needs it, and `feedline[extra]` installs it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise  # it is installed, and lacks something itself
        beside = ", and TensorFlow, JAX or torch for it to run on" if module == "keras" else ""
        raise MissingDependency(
            f"{what}: {module} is not installed.\n  To install it:  pip install 'feedline[{extra}]'{beside}",
            name=module,
        ) from None

"""Checks of what users give to a step: an error at once, at their own line, and not from deep within."""

from __future__ import annotations

import operator
import re
from typing import Any

import numpy as np

from feedline.errors import UsageError
from feedline.graph.node import Node
from feedline.spec import as_dtype, dtype_name

AUTOTUNE = -1

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_UNITS |= {f"{unit}I": 1024**power for power, unit in enumerate("KMGT", 1)}


def check_int(node: Node, name: str, least: int, rule: str) -> None:
    """Make the argument `name` a plain int. UsageError when it is none, or (as `rule` tells) too small.

    A NumPy integer is welcome, but would not pass through the JSON of a state.
    """
    value = getattr(node, name)
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    where = f"{node.name}({name}={value!r})"
    if number is None or isinstance(value, bool | np.bool_):
        raise UsageError(f"{where}: {name} must be an int, not {type(value).__name__}.")
    if not least <= number < 2**63:
        raise UsageError(f"{where}: {rule if number < least else f'{name} must be less than 2**63.'}")
    object.__setattr__(node, name, number)


def check_count(node: Node) -> None:
    """Make the argument `count` a plain int, and -1 of every negative one, as tf.data does."""
    check_int(node, "count", -(2**63), "count must be at least -(2**63).")
    object.__setattr__(node, "count", max(node.count, -1))  # type: ignore[attr-defined]


def check_number(node: Node, name: str, kinds: str) -> None:
    """Make the argument `name`, a dtype of these kinds, the dtype's name. UsageError when it is none."""
    value = getattr(node, name)
    dtype = as_dtype(value)
    if dtype is None or dtype.kind not in kinds:
        raise UsageError(f'{node.name}({name}={value!r}): give a dtype of numbers: "int32", "float32", ...')
    object.__setattr__(node, name, dtype_name(dtype.newbyteorder("=")))


def check_bool(node: Node, name: str) -> None:
    value = getattr(node, name)
    if not isinstance(value, bool | np.bool_):
        kind = type(value).__name__
        raise UsageError(f"{node.name}({name}={value!r}): {name} must be True or False, not {kind}.")
    object.__setattr__(node, name, bool(value))


def check_function(node: Node, name: str) -> None:
    value: Any = getattr(node, name)
    if not callable(value):
        raise UsageError(
            f"{node.name}({value!r}): give a function of one element, not {type(value).__name__}."
        )


def check_calls(step: str, given: Any, name: str = "num_parallel_calls") -> None:
    if given is None:
        return
    is_int = isinstance(given, int | np.integer) and not isinstance(given, bool)
    if not is_int or not (given == AUTOTUNE or 1 <= given < 2**31):
        raise UsageError(
            f"{step}({name}={given!r}): must be an int from 1 to 2**31 - 1, or AUTOTUNE (-1), or None."
        )


def check_executor(step: str, executor: Any) -> None:
    if executor not in (None, "process", "thread"):
        raise UsageError(f'{step}(executor={executor!r}): must be "process" or "thread", or None for either.')


def check_workers(step: str, workers: Any) -> None:
    if isinstance(workers, bool) or not isinstance(workers, int | np.integer) or workers < AUTOTUNE:
        raise UsageError(f"{step}(workers={workers!r}): must be an int, 0 at least, or AUTOTUNE (-1).")


def bytes_of(step: str, name: str, size: Any) -> int:
    """
    >>> [bytes_of("cache", "limit", size) for size in (4096, "1.5 GB", "2GiB")]
    [4096, 1500000000, 2147483648]
    """
    if isinstance(size, int | np.integer) and not isinstance(size, bool) and size > 0:
        return int(size)
    if isinstance(size, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?I?)B?\s*", size.upper())
        if found and found[2] in _UNITS and float(found[1]) > 0:
            return int(float(found[1]) * _UNITS[found[2]])
    raise UsageError(f'{step}({name}={size!r}): give a number of bytes, or a text like "4GB".')

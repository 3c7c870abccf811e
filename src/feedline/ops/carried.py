"""The state that `scan` and `reduce` carry from one call of a function to the next, and its JSON form.

It keeps the structure and the dtypes of the first one; shapes may change. Its arrays cannot be written to: a
function that fails must leave the state as it was, and an iteration must not change how the next one begins.
"""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from feedline.column import Ragged
from feedline.errors import UsageError, WrongKind
from feedline.graph import Node, State
from feedline.spec import ARRAYS, STRING, as_leaf, dtype_name, dtype_of, wider_dtype
from feedline.structure import flatten


def first_state(tree: Any, step: str) -> Any:
    """The initial state as it is held: a copy, with leaves as elements have them."""
    leaves, structure = flatten(tree)
    if structure.has_none or not leaves:
        raise UsageError(
            f"{step}: initial_state must be arrays, numbers and strings, one at least, and without None.\n"
            "  For a part that is not there yet, begin with an empty array: np.zeros(0)."
        )
    held = []
    for leaf, path in zip(leaves, structure.paths(), strict=True):
        path = path.replace("element", "initial_state", 1)
        value = as_leaf(leaf, path)
        if not isinstance(value, (*ARRAYS, bytes, Ragged)):
            raise UsageError(
                f"{path}: a state is made of arrays, numbers and strings, not of {type(leaf).__name__}.\n"
                "  It is saved with the position in the dataset, so it must be data."
            )
        held.append(_locked(value.copy() if isinstance(value, np.ndarray) else value))
    return structure.unflatten(held)


class Carried:
    """The state after the calls so far: `value`."""

    def __init__(self, node: Node, first: Any, saved: State = None) -> None:
        self._node = node
        self._leaves, self._structure = flatten(first)
        self._dtypes = [_dtype(leaf) for leaf in self._leaves]
        if saved is not None:
            self._leaves = [_from_json(one) for one in saved]
        self.value = self._structure.unflatten(self._leaves)

    def checked(self, value: Any) -> list[Any]:
        """The leaves of a state that a function returned, for `set`."""
        try:
            leaves = self._structure.leaves_of(value)
        except UsageError as error:
            raise WrongKind(f"{self._node}: the new state is not like initial_state. {error}") from None
        for number, leaf in enumerate(leaves):
            dtype = self._dtypes[number]
            if not isinstance(leaf, np.generic) or leaf.dtype is not dtype:  # the others are most
                leaves[number] = leaf = _locked(as_leaf(leaf))
                if _dtype(leaf) != dtype:
                    self._refuse(number, _dtype(leaf))
        return leaves

    def _refuse(self, number: int, found: Any) -> None:
        path = self._structure.paths()[number].replace("element", "state", 1)
        first = self._dtypes[number]
        wider = wider_dtype(found, first)
        remedy = "return the dtype of initial_state"
        if wider is not None:
            value = "new_state" if wider == first else "initial_state"
            remedy = f"convert {value}, say with np.asarray({value}, {dtype_name(wider)!r})"
        raise WrongKind(
            f"{self._node}: {path} is {_name(found)} here, and was {_name(first)} in initial_state.\n"
            f"  A state keeps its dtypes: {remedy}."
        )

    def set(self, leaves: list[Any]) -> None:
        self._leaves = leaves
        self.value = self._structure.unflatten(leaves)

    def to_json(self) -> State:
        return [_to_json(leaf) for leaf in self._leaves]


def _locked(leaf: Any) -> Any:
    if isinstance(leaf, np.ndarray):
        if leaf.ndim == 0:
            return leaf[()]
        if leaf.flags.writeable:
            leaf = leaf.view()
            leaf.flags.writeable = False
    return leaf


def _dtype(leaf: Any) -> Any:
    """What must not change of a leaf: the dtype; of what is no array, the class."""
    if isinstance(leaf, ARRAYS):
        return leaf.dtype
    if isinstance(leaf, Ragged):
        return Ragged, leaf.dtype
    return STRING if isinstance(leaf, bytes) else type(leaf)


def _name(dtype: Any) -> str:
    if isinstance(dtype, tuple):
        return f"Ragged of {dtype_name(dtype[1])}"
    return dtype.__name__ if isinstance(dtype, type) else dtype_name(dtype)


def _to_json(leaf: Any) -> State:
    """["int64", shape, base64]; ["string", shape, list of base64]; or ["ragged", offsets, values]."""
    if isinstance(leaf, Ragged):
        return ["ragged", leaf.offsets.tolist(), _to_json(leaf.values)]
    if isinstance(leaf, bytes):
        return ["string", [], [_text(leaf)]]
    if leaf.dtype == STRING:
        return ["string", list(leaf.shape), [_text(string) for string in leaf.ravel().tolist()]]
    return [dtype_name(leaf.dtype), list(leaf.shape), _text(leaf.tobytes())]


def _from_json(saved: State) -> Any:
    kind, shape, data = saved
    if kind == "ragged":
        return Ragged(_from_json(data), np.array(shape, np.int64))
    if kind == "string":
        flat = np.array([base64.b64decode(string) for string in data], STRING)
    else:
        flat = np.frombuffer(base64.b64decode(data), dtype_of(kind))
    return _locked(flat.reshape(shape)) if shape else flat[0]


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()

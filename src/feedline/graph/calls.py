"""Calling users' functions: arguments as tf.data passes them, results made rows, errors that say where."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from itertools import islice, starmap
from operator import attrgetter
from sys import getrefcount
from typing import Any

import numpy as np

from feedline import frame
from feedline.block import Block
from feedline.column import Ragged
from feedline.errors import UsageError, WrongKind
from feedline.graph.node import Node
from feedline.graph.rng import Draws, drawing
from feedline.joining import Rows, stack
from feedline.spec import (
    ARRAYS,
    STRING,
    ObjectSpec,
    RaggedSpec,
    as_leaf,
    dtype_name,
    is_ready,
    leaf_spec,
    wider_dtype,
)
from feedline.structure import Structure, flatten

_DTYPE_OF = attrgetter("dtype")
_MOST_UNTIMED = 64  # calls of a function between two looks at the clock


def caller(function: Callable[..., Any]) -> Callable[[Any], Any]:
    """The function of one element: a tuple is passed as its arguments. (A namedtuple is not: as tf.data.)"""
    return lambda element: function(*element) if type(element) is tuple else function(element)


def tells(predicate: Callable[..., Any], step: str) -> Callable[[Any], bool]:
    """The function of one element that must say True or False."""
    call = caller(predicate)

    def answer(element: Any) -> bool:
        said = call(element)
        if said is True or said is False:
            return said
        if isinstance(said, np.bool_ | np.ndarray) and said.dtype == np.bool_ and said.shape == ():
            return bool(said)
        raise WrongKind(
            f"{step}: the predicate must return True or False, not {type(said).__name__}.\n"
            "  Of an array, say which you mean: .any() or .all()."
        )

    return answer


def results(
    function: Callable[..., Any], block: Block, late: Callable[[], bool], draws: Draws, numbers: Sequence[int]
) -> tuple[list[Any], Exception | None]:
    """What the function returns for the rows of a block, up to the first error or until it is late.

    Random numbers depend on `draws`, and on the `numbers` of the rows.
    """
    rows = iter(block)
    returned = starmap(function, rows) if block.structure.is_tuple else map(function, rows)
    values: list[Any] = []
    some = 1
    try:
        with drawing(draws, numbers, values):
            # Asking for the time costs as much as a small function: of quick ones it is done seldom.
            while len(values) < block.rows:
                wanted = min(len(values) + some, block.rows)
                for value in islice(returned, some):
                    # The next call may write into an array that the function keeps, or that is a view of one.
                    if type(value) is not np.ndarray or value.base is not None or getrefcount(value) > _ALONE:
                        value = whole_result(value)
                        value = own(value) if len(values) + 1 < block.rows else value
                    values.append(value)  # not extend: what came in front of an error must stay
                if len(values) < wanted:
                    raise RuntimeError("the function raised StopIteration")
                if late():
                    break
                some = min(2 * some, _MOST_UNTIMED)
    except Exception as error:
        return values, error
    return values, None


def whole_result(value: Any) -> Any:
    """What a function returned for an element: a list is a tuple there, as in tf.data, and nowhere else."""
    return tuple(value) if isinstance(value, list) else value


def _references() -> int:
    """How many `getrefcount` tells of an array that only the loop above knows; it differs between Pythons."""
    for value in islice(map(np.zeros, [1]), 1):
        return getrefcount(value)
    raise AssertionError


_ALONE = _references()


def own(value: Any) -> Any:
    """The value with copies of all that could change later."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, tuple):
        return tuple.__new__(type(value), map(own, value))
    if isinstance(value, dict):
        return {key: own(item) for key, item in value.items()}
    if value is None or isinstance(value, np.generic | bytes | str | bool | int | float | complex):
        return value
    try:
        return deepcopy(as_leaf(value)) if _is_leaf(value) else value
    except UsageError:
        return value  # refused when it is added, by its path in the element


def _is_leaf(value: Any) -> bool:
    return isinstance(value, Ragged | list | bytearray | memoryview) or hasattr(type(value), "__array__")


def blame(error: BaseException, step: Node | str, element: int) -> None:
    """Note in the error which step it comes from. It stays what it is, so that users can catch it."""
    note = f"  in {step}, at element {element:,} of its input (counted from 0)"
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)


def no_end(error: StopIteration) -> RuntimeError:
    """What to raise instead, when a user's function raised this: who iterates would take it for the end."""
    instead = RuntimeError("a function raised StopIteration")
    for note in getattr(error, "__notes__", ()):
        instead.add_note(note)
    return instead


class Collector:
    """Gathers what a function returned for one element after another into blocks.

    All must have the structure of the first, and its dtypes; shapes may change.
    """

    def __init__(self, step: Node | str) -> None:
        self._step = step
        self._structure: Structure | None = None
        self._dtypes: list[Any] = []
        self._leaves: list[list[Any]] = []  # for each leaf, those of all elements
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add_all(self, values: list[Any]) -> Exception | None:
        """Add elements up to the first that does not fit, which gives the error."""
        try:
            if self._structure is None and values:
                self.add(values[0])  # which tells what the others must be
                values = values[1:]
            if values and not self._add_alike(values):
                for value in values:
                    self.add(value)
        except Exception as error:
            return error
        return None

    def _add_alike(self, values: list[Any]) -> bool:
        """Add elements whose leaves are all arrays, scalars or bytes of the right dtype; False if not.

        Nearly always they are, and to find that out for all at once costs a fraction of looking at each.
        """
        assert self._structure is not None
        columns = self._structure.split(values)
        if columns is None or not all(map(_are_all, columns, self._dtypes)):
            return False
        for leaves, column in zip(self._leaves, columns, strict=True):
            leaves += column
        self._count += len(values)
        return True

    def add(self, value: Any) -> None:
        if self._structure is None:
            leaves, structure = flatten(value)
            if not leaves:
                raise WrongKind(
                    f"{self._step}: the function returned {value!r}, and an element needs one array at "
                    "least.\n  Perhaps a `return` is missing."
                )
            leaves = self._as_leaves(leaves, structure)
            self._structure, self._dtypes = structure, [_dtype(leaf) for leaf in leaves]
            self._leaves = [[] for _ in leaves]
        else:
            leaves = self._as_leaves(self._structure.leaves_of(value), self._structure)
            for leaf, dtype in zip(leaves, self._dtypes, strict=True):
                found = leaf.dtype if isinstance(leaf, ARRAYS) else _dtype(leaf)
                if found is not dtype and found != dtype:
                    self._refuse(leaves)
        for column, leaf in zip(self._leaves, leaves, strict=True):
            column.append(leaf)
        self._count += 1

    def _as_leaves(self, leaves: list[Any], structure: Structure) -> list[Any]:
        for i, leaf in enumerate(leaves):
            if not isinstance(leaf, ARRAYS) or not is_ready(leaf.dtype):
                leaves[i] = as_leaf(leaf, structure.paths()[i])
        return leaves

    def _refuse(self, leaves: list[Any]) -> None:
        assert self._structure is not None
        for leaf, dtype, path in zip(leaves, self._dtypes, self._structure.paths(), strict=True):
            found = _dtype(leaf)
            if found != dtype:
                raise WrongKind(
                    f"{self._step}: {path} is {_name(found)} here, and was {_name(dtype)} in the elements "
                    f"before.\n  Every element of a dataset must have the same dtypes: "
                    f"{_conversion(found, dtype)}."
                )

    def clear(self) -> None:
        self._leaves = [[] for _ in self._leaves]
        self._count = 0

    def plan(self) -> frame.Plan:
        """The frame of what was added; it is stacked only there."""
        assert self._structure is not None
        columns = [Rows.of(leaves) or stack(leaves) for leaves in self._leaves]
        return frame.Plan(self._structure, columns, self._count)

    def block(self) -> Block:
        """What was added since the last block."""
        assert self._structure is not None
        block = Block._trusted(self._structure, [stack(leaves) for leaves in self._leaves], self._count)
        self.clear()
        return block


def _are_all(leaves: Sequence[Any], dtype: Any) -> bool:
    """Are the leaves all arrays, or all scalars or bytes, of this dtype?"""
    kinds = set(map(type, leaves))
    if len(kinds) != 1:
        return False
    (kind,) = kinds
    if kind is bytes:
        return bool(dtype == STRING)
    return issubclass(kind, ARRAYS) and dtype != STRING and set(map(_DTYPE_OF, leaves)) == {dtype}


def _dtype(leaf: Any) -> Any:
    """The dtype of a leaf, and whether it is Ragged; of an object that is no array, its class."""
    spec = leaf_spec(leaf)
    if isinstance(spec, RaggedSpec):
        return spec.dtype, spec.ragged_rank
    return type(leaf) if isinstance(spec, ObjectSpec) else spec.dtype


def _conversion(found: Any, before: Any) -> str:
    """What to do about an element of another dtype than those before; no value may be lost by it."""
    wider = wider_dtype(found, before)
    if wider is None:
        return "convert it"
    which = "it" if wider == before else "all elements"
    return f"convert {which}, say with np.asarray(x, {dtype_name(wider)!r})"


def _name(dtype: Any) -> str:
    if isinstance(dtype, tuple):
        return f"a Ragged of {dtype_name(dtype[0])}"
    return dtype.__name__ if isinstance(dtype, type) else dtype_name(dtype)

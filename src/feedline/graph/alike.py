"""Are datasets, and blocks of different places, of one kind? Shapes may differ, structure and dtypes not."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from feedline.block import Block
from feedline.column import Column, Ragged, row_spec
from feedline.errors import UsageError, WrongKind
from feedline.graph.context import Context
from feedline.graph.node import Node, Peek
from feedline.graph.stream import State
from feedline.spec import ObjectSpec, RaggedSpec, dtype_name, dtype_of, merge_specs
from feedline.structure import Structure, flatten


class NoElement(UsageError):
    """There is no element that could tell the spec."""


def known_spec(node: Node, block: Block, context: Context) -> Any:
    """The spec of a node's elements, by which arrays of changing length are told from rows of a Ragged.

    None: they are what functions return. Only if the block leaves it open, datasets are looked at that
    functions have not made yet, because a cache has their elements, say: what ran before must not count.
    """
    spec = node.spec(None)
    if spec is None and any(isinstance(column, Ragged) for column in block.sample()):
        with suppress(Exception):  # what fails is raised when it comes
            spec = node.spec(
                lambda one: context.peek(one) if one.makes_datasets and not one.has_made else None
            )
    return spec


def common_spec(step: Node, parts: Sequence[Node], peek: Peek | None) -> Any:
    """What the elements of all datasets have in common, which must be alike; None when one is not known.

    Those that have no elements do not count, if only elements can tell.
    """
    specs: dict[int, Any] = {}
    empty: NoElement | None = None
    for number, part in enumerate(parts):
        try:
            specs[number] = part.spec(peek)
        except NoElement as error:
            empty = error
    if empty is not None and not specs:
        raise empty
    if None in specs.values():
        return None
    leaves, structure = flatten(next(iter(specs.values())))
    for number, spec in specs.items():
        others, other_structure = flatten(spec)
        merged = [merge_specs(a, b) for a, b in zip(leaves, others, strict=False)]
        mixed = any(isinstance(m, ObjectSpec) and m != a for m, a in zip(merged, leaves, strict=False))
        if structure != other_structure or mixed:
            raise WrongKind(
                f"{step}: dataset {number} has elements {spec}, and those before it "
                f"{structure.unflatten(leaves)}.\n"
                "  All must have the same structure and dtypes: change some of them, with map."
            )
        leaves = merged
    return structure.unflatten(leaves)


class Alike:
    """Remembers what the first block was like, and refuses others.

    Without it, whether a mixture is noticed would depend on which rows happen to come in one block.
    """

    def __init__(self, step: Node | str, state: State = None) -> None:
        self._step = step
        self._structure: Structure | None = None
        self._dtypes: list[Any] = []
        if state is not None:
            structure, names = state
            self._structure = Structure.from_json(structure)
            self._dtypes = [_dtype_of(name) for name in names]

    def state(self) -> State:
        """What is remembered."""
        if self._structure is None:
            return None
        return [self._structure.to_json(), [_name_of(dtype) for dtype in self._dtypes]]

    def check(self, block: Block) -> None:
        dtypes = [_dtype(column) for column in block.sample()]
        if self._structure is None:
            self._structure, self._dtypes = block.structure, dtypes
        if block.structure != self._structure:
            raise WrongKind(
                f"{self._step}: elements have the structure {block.structure} here, and those before "
                f"{self._structure}.\n"
                "  Every element of a dataset must have the same tuples, dict keys and Nones."
            )
        for number, (found, wanted) in enumerate(zip(dtypes, self._dtypes, strict=True)):
            if found != wanted:
                raise WrongKind(
                    f"{self._step}: {block.structure.paths()[number]} is {_name(found)} here, and was "
                    f"{_name(wanted)} in the elements before.\n"
                    "  Every element of a dataset must have the same dtypes: convert one of them, with map."
                )


def _dtype(column: Column) -> Any:
    """The dtype of the rows, and whether they are Ragged themselves; None when they are other objects."""
    spec = row_spec(column)
    if isinstance(spec, RaggedSpec):
        return spec.dtype, spec.ragged_rank
    return None if isinstance(spec, ObjectSpec) else spec.dtype


def _name(dtype: Any) -> str:
    if isinstance(dtype, tuple):
        return f"a Ragged of {dtype_name(dtype[0])}"
    return "an object" if dtype is None else dtype_name(dtype)


def _name_of(dtype: Any) -> State:
    if isinstance(dtype, tuple):
        return [dtype_name(dtype[0]), dtype[1]]
    return None if dtype is None else dtype_name(dtype)


def _dtype_of(name: State) -> Any:
    if isinstance(name, list):
        return dtype_of(name[0]), name[1]
    return None if name is None else dtype_of(name)

"""The laws that every step of a pipeline obeys, as one check: for feedline's own steps, and for yours.

def test_my_step_obeys_the_laws():
    check_laws(lambda ds: ds.apply(my_step), Dataset.range(20))
"""

from __future__ import annotations

import copy
import gc
import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import numpy as np

from feedline.block import Objects, Ragged
from feedline.dataset import Dataset
from feedline.graph import INFINITE, UNKNOWN, Context
from feedline.iterator import DatasetIterator
from feedline.run import LocalServices
from feedline.spec import STRING, ArraySpec, ObjectSpec, RaggedSpec, as_leaf, leaf_spec, merge_specs
from feedline.structure import flatten

BLOCK_ROWS = (1, 2, 7, Context.block_rows)


def check_laws(
    step: Callable[[Dataset], Dataset], source: Dataset, *, most: int = 60, whole_spec: bool = True
) -> list[Any]:
    """Check the laws for `step(source)`, as far as its first `most` elements show. They are the result.

    The same result twice; the same after pickling; the same whatever the size of blocks; resumable after
    every element, with nothing lost and nothing repeated; the same by index as in order; the same when users
    change the arrays they got; an element_spec and a cardinality that are true; no thread and no file left
    open. `whole_spec=False`: the spec may be narrower than what later elements are, because it was inferred
    from the first.
    """
    # Always the first iteration: of a random step, each has an order of its own.
    with in_blocks(step(source), Context.block_rows) as one:
        elements = copy.deepcopy(list(islice(one, most)))
    pickled = cloudpickle.loads(cloudpickle.dumps(step(source)))
    for again, when in ((step(source), "the second time"), (pickled, "after pickling")):
        with in_blocks(again, Context.block_rows) as one:
            assert_same(islice(one, most), elements, when)
    for rows in BLOCK_ROWS:
        with in_blocks(step(source), rows) as one:
            assert_same(islice(one, most), elements, f"in blocks of {rows}")
    _check_resuming(step, source, elements, most)
    _check_index(step(source), elements)
    _check_writing(step(source), elements)
    _check_spec(step(source), elements, whole_spec)
    _check_cardinality(step(source), elements, most)
    _check_nothing_is_left(step, source, len(elements))
    return elements


def check_errors(step: Callable[[Dataset], Dataset], source: Dataset, *, most: int = 60) -> list[Any]:
    """Check `step` over a source of which some elements fail. What comes, elements and errors, is the result.

    An error comes in its place among the elements, whatever the size of blocks, and the stream goes on after
    it; a state taken anywhere, also right before an error, leads to the same.
    """
    made = step(source.enumerate().map(_fail_now_and_then))
    with in_blocks(made, Context.block_rows) as one:
        events = list(islice(_events(one), most))
    for rows in BLOCK_ROWS:
        with in_blocks(made, rows) as one:
            assert_same(islice(_events(one), most), events, f"in blocks of {rows}")
        with in_blocks(made, rows) as first:
            coming = _events(first)
            for taken in range(len(events) + 1):
                state = json.loads(json.dumps(first.state_dict()))
                with in_blocks(made, rows) as second:
                    second.load_state_dict(state)
                    rest = islice(_events(second), most - taken)
                    assert_same(rest, events[taken:], f"resumed after {taken}, in blocks of {rows}")
                next(coming, None)
    return events


class Failed(RuntimeError):
    """What the source of `check_errors` raises."""


def _fail_now_and_then(number: Any, element: Any) -> Any:
    if number in (0, 3, 4, 9):
        raise Failed(f"element {number}")
    return element


def _events(elements: Iterator[Any]) -> Iterator[Any]:
    """Elements, and the texts of errors in their places."""
    while True:
        try:
            yield ("element", next(elements))
        except StopIteration:
            return
        except Failed as error:
            yield ("failed", str(error))


def assert_same(got: Iterable[Any], wanted: Iterable[Any], when: str = "") -> None:
    """Are the elements equal, bit for bit, with the same structure, dtypes and shapes?"""
    got, wanted = list(got), list(wanted)
    for number, (one, other) in enumerate(zip(got, wanted, strict=False)):
        assert same(one, other), f"element {number} {when}: {one!r} instead of {other!r}"
    assert len(got) == len(wanted), f"{len(got)} elements {when}, instead of {len(wanted)}"


def same(one: Any, other: Any) -> bool:
    # By hand, because it is asked very often, and flatten would look at each structure closely.
    if isinstance(one, tuple) and isinstance(other, tuple):
        alike = type(one).__qualname__ == type(other).__qualname__ and len(one) == len(other)
        return alike and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    structural = (tuple, dict, type(None))
    if isinstance(one, structural) or isinstance(other, structural):
        return one is other
    return _same_leaf(one, other)


def _same_leaf(one: Any, other: Any) -> bool:
    if isinstance(one, Dataset) and isinstance(other, Dataset):
        ours, theirs = list(one), list(other)
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(one, Objects) and isinstance(other, Objects):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, Ragged) or isinstance(other, Ragged):
        return isinstance(one, Ragged) and one.equals(other)
    one, other = as_leaf(one), as_leaf(other)
    if leaf_spec(one) != leaf_spec(other):
        return False
    if getattr(one, "dtype", STRING) == STRING:
        return bool(np.all(one == other))
    return np.asarray(one).tobytes() == np.asarray(other).tobytes()


def in_blocks(dataset: Dataset, block_rows: int) -> DatasetIterator:
    """An iterator of the first epoch, whose blocks have so many rows at most."""
    context = Context(LocalServices(), block_rows=block_rows)
    return DatasetIterator(dataset._node, context, lambda epoch: None)


def _check_resuming(
    step: Callable[[Dataset], Dataset], source: Dataset, elements: list[Any], most: int
) -> None:
    for rows in (2, Context.block_rows):
        with in_blocks(step(source), rows) as first:
            for taken in range(len(elements) + 1):
                state = json.loads(json.dumps(first.state_dict()))
                with in_blocks(step(source), rows) as second:
                    second.load_state_dict(state)
                    rest = islice(second, most - taken)
                    assert_same(rest, elements[taken:], f"resumed after {taken}, in blocks of {rows}")
                if taken < len(elements):
                    # Asking for the state must not disturb the iterator.
                    assert same(next(first), elements[taken]), f"element {taken} after state_dict()"


def _check_index(dataset: Dataset, elements: list[Any]) -> None:
    if dataset._node.length() is None:
        return
    assert_same((dataset[i] for i in range(len(elements))), elements, "by index")
    backwards = dataset[len(elements) - 1 :: -1] if elements else dataset[:0]
    assert_same(backwards, elements[::-1], "backwards")


def _check_writing(dataset: Dataset, elements: list[Any]) -> None:
    """What users write into an element is seen neither in later ones nor in the next iteration."""
    for when in ("after writing into those before", "after writing into those of another iteration"):
        with in_blocks(dataset, Context.block_rows) as one:
            for element, wanted in zip(one, elements, strict=False):
                assert same(element, wanted), f"{element!r} instead of {wanted!r} {when}"
                for leaf in flatten(element)[0]:
                    values = leaf.values if isinstance(leaf, Ragged) else leaf
                    if isinstance(values, np.ndarray) and values.flags.writeable:
                        values[...] = b"written" if values.dtype == STRING else values == 0


def _check_spec(dataset: Dataset, elements: list[Any], whole: bool) -> None:
    if not elements:
        return
    specs, structure = flatten(dataset.element_spec)
    for number, element in enumerate(elements):
        leaves, found = flatten(element)
        assert found == structure, f"element {number} is {found}, and element_spec {structure}"
        for spec, leaf in zip(specs, leaves, strict=True):
            own = leaf_spec(as_leaf(leaf))
            assert _fits(own, spec, whole), f"element {number} has {own}, and element_spec {spec}"


def _fits(own: Any, spec: Any, whole: bool) -> bool:
    if isinstance(spec, RaggedSpec) and spec.ragged_rank == 0:
        spec = ArraySpec(spec.shape, spec.dtype)
    if isinstance(spec, ObjectSpec):
        return True
    if isinstance(spec, RaggedSpec) and isinstance(own, RaggedSpec) and len(spec.shape) == len(own.shape):
        # A Ragged does not know that its rows are all of one length.
        shape = [other if one is None else one for one, other in zip(own.shape, spec.shape, strict=True)]
        own = replace(own, shape=tuple(shape))
    merged = merge_specs(own, spec)
    return merged == spec if whole else not isinstance(merged, ObjectSpec)


def _check_cardinality(dataset: Dataset, elements: list[Any], most: int) -> None:
    cardinality = dataset.cardinality()
    if cardinality == INFINITE:
        assert len(elements) == most, "an infinite dataset ended"
    elif cardinality != UNKNOWN:
        assert min(cardinality, most) == len(elements), f"cardinality {cardinality}, but {len(elements)} came"
    if dataset._node.length() is not None:
        assert dataset._node.length() == cardinality


def _check_nothing_is_left(step: Callable[[Dataset], Dataset], source: Dataset, count: int) -> None:
    before = _held()
    for taken in {0, 1, count // 2, count}:
        with iter(step(source)) as one:
            for _ in islice(one, taken):
                pass
        if _held() != before:
            gc.collect()  # it is slow; and what was left by others may be gone by now
        threads, files = _held()
        assert threads <= before[0], f"closed after {taken} elements: {threads} threads, not {before[0]}"
        assert files <= before[1], f"closed after {taken} elements: {files} open files, not {before[1]}"


def _held() -> tuple[int, int]:
    return threading.active_count(), len(os.listdir("/proc/self/fd"))

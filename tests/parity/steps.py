"""The steps that random chains are made of, each as tf.data and feedline both understand it.

To add one, add a `Step` to STEPS: its name, for which elements it can be used, a strategy for its arguments,
and how it is applied. The arguments are what hypothesis shows and shrinks, so they are plain values. `apply`
gets a `Side`, with the Dataset class and the few words that NumPy and TensorFlow spell differently.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import tensorflow as tf
from hypothesis import strategies as st

from feedline import Dataset, Ragged


@dataclass(frozen=True)
class Side:
    """One of the two: its Dataset, and its words."""

    Dataset: Any
    length: Callable[[Any], Any]
    int64: Callable[[Any], Any]
    ragged: Callable[[Any, Any], Any]
    plain: Callable[[Any], Any]  # how a function is handed to a step


OURS = Side(Dataset, lambda x: np.int64(len(x)), np.int64, Ragged, lambda function: function)
THEIRS = Side(
    tf.data.Dataset,
    lambda x: tf.shape(x, tf.int64)[0],
    lambda x: tf.cast(x, tf.int64),
    tf.RaggedTensor.from_row_splits,
    tf.autograph.experimental.do_not_convert,  # the functions are plain, and converting them takes long
)


class Leaf(NamedTuple):
    """What tf.data knows of a leaf."""

    dtype: str
    kind: str  # "int", "float", "string", "bool" or "other"
    rank: int | None
    rows: int | None  # the first dimension
    is_ragged: bool
    holds_something: bool = False  # no dimension after the first is 0, or could be


class Elements:
    """What tf.data knows of the elements of a dataset."""

    def __init__(self, dataset: Any) -> None:
        spec = dataset.element_spec
        self.leaves = [_leaf(one) for one in tf.nest.flatten(spec)]
        self.is_plain = bool(self.leaves) and not any(leaf.is_ragged for leaf in self.leaves)
        self.is_single = not isinstance(spec, tuple | dict)
        self.first = self.leaves[0] if self.leaves else Leaf("other", "other", None, None, False)

    def starts_with(self, kind: str) -> bool:
        """Is the first leaf a scalar of that kind?"""
        return self.is_plain and (self.first.kind, self.first.rank) == (kind, 0)

    def is_batched(self) -> bool:
        return self.is_plain and all(leaf.rank for leaf in self.leaves)

    def can_be_split(self) -> bool:
        """Are they batches, of rows that surely hold something? Of others, tf.data's unbatch may crash."""
        return self.is_batched() and all(leaf.holds_something for leaf in self.leaves)


def always(elements: Elements) -> bool:
    return True


def _encoded(side: Side, dataset: Any) -> Any:
    """Ragged batches of different sizes cannot be batched in tf.data, unless a map has passed them on."""
    if side is OURS:
        return dataset
    spec = dataset.element_spec
    if not any(getattr(leaf, "ragged_rank", 0) for leaf in tf.nest.flatten(spec)):
        return dataset
    return dataset.map((lambda *element: element) if isinstance(spec, tuple) else lambda element: element)


def _leaf(spec: Any) -> Leaf:
    if not isinstance(spec, tf.TensorSpec | tf.RaggedTensorSpec):
        return Leaf("other", "other", None, None, True)
    dtype = spec.dtype
    kind = "int" if dtype.is_integer else "float" if dtype.is_floating else dtype.name
    rows = spec.shape[0] if spec.shape.rank else None
    holds_something = bool(spec.shape.rank) and all(spec.shape[1:])
    return Leaf(
        dtype.name, kind, spec.shape.rank, rows, isinstance(spec, tf.RaggedTensorSpec), holds_something
    )


class Source(NamedTuple):
    name: str
    arguments: st.SearchStrategy[Any]
    make: Callable[[Side, Any], Any]

    def __repr__(self) -> str:
        return self.name


class Step(NamedTuple):
    name: str
    fits: Callable[[Elements], bool]
    arguments: st.SearchStrategy[Any] | Callable[[Elements], st.SearchStrategy[Any]]
    apply: Callable[[Side, Any, Any], Any]

    def arguments_for(self, elements: Elements) -> st.SearchStrategy[Any]:
        return self.arguments(elements) if callable(self.arguments) else self.arguments

    def __repr__(self) -> str:
        return self.name


# Functions: of the side and an element, as one value.


def element(args: tuple[Any, ...]) -> Any:
    """What a function was called with, as one value. (An element that is a tuple of one comes without it.)"""
    return args if len(args) > 1 else args[0]


def each(function: Callable[[Any], Any], tree: Any) -> Any:
    if isinstance(tree, tuple):
        return tuple(each(function, item) for item in tree)
    if isinstance(tree, dict):
        return {key: each(function, item) for key, item in tree.items()}
    return None if tree is None else function(tree)


def leaves(tree: Any) -> list[Any]:
    """As tf.nest counts them."""
    if isinstance(tree, dict):
        tree = tuple(tree[key] for key in sorted(tree))
    if isinstance(tree, tuple):
        return [leaf for item in tree for leaf in leaves(item)]
    return [] if tree is None else [tree]


def first(tree: Any) -> Any:
    return leaves(tree)[0]


def twice(x: Any) -> Any:
    with np.errstate(over="ignore"):  # tf does not warn when a uint8 runs over
        return x if getattr(x, "dtype", None) in (np.bool_, tf.bool) else x + x


MAPS: dict[str, tuple[Callable[[Elements], bool], Callable[[Side, Any], Any]]] = {
    "twice": (lambda e: e.is_plain, lambda side, x: each(twice, x)),
    "pair": (always, lambda side, x: (x, x)),
    "dict": (always, lambda side, x: {"b": x, "a": (x, None)}),
    "first": (lambda e: bool(e.leaves), lambda side, x: first(x)),
    "constant": (always, lambda side, x: (x, 7, {"text": "é", "none": None})),
    "list": (lambda e: e.is_plain, lambda side, x: {"list": [first(x), first(x)]}),
    "tail": (lambda e: e.is_batched(), lambda side, x: each(lambda leaf: leaf[1:], x)),
    "row": (
        lambda e: e.is_batched() and all(leaf.rows != 0 for leaf in e.leaves),
        lambda side, x: each(lambda leaf: leaf[0], x),
    ),
    "length": (lambda e: e.is_batched(), lambda side, x: (x, side.length(first(x)))),
}
PREDICATES: dict[str, tuple[Callable[[Elements], bool], Callable[[Side, Any], Any]]] = {
    "all": (always, lambda side, x: True),
    "none": (always, lambda side, x: False),
    "odd": (lambda e: e.starts_with("int"), lambda side, x: first(x) % 2 == 1),
    "large": (lambda e: e.starts_with("float"), lambda side, x: first(x) > 2),
    "not a": (lambda e: e.starts_with("string"), lambda side, x: first(x) != b"a"),
    "true": (lambda e: e.starts_with("bool"), lambda side, x: first(x)),
    "long": (lambda e: e.is_batched(), lambda side, x: side.length(first(x)) > 1),
}
DATASETS: dict[str, tuple[Callable[[Elements], bool], Callable[[Side, Any], Any]]] = {
    "again": (always, lambda side, x: side.Dataset.from_tensors(x).repeat(2)),
    "rows": (lambda e: e.is_batched(), lambda side, x: side.Dataset.from_tensor_slices(x)),
    "numbers": (
        lambda e: e.starts_with("int"),
        lambda side, x: side.Dataset.range(side.int64(first(x)) % 5),
    ),
    "filtered": (
        lambda e: e.starts_with("int"),
        lambda side, x: side.Dataset.range(6).filter(lambda y: y % 3 != side.int64(first(x)) % 3),
    ),
}


def _calling(name: str, table: dict[str, Any], arguments: st.SearchStrategy[Any], how: Any) -> Step:
    """A step with any function of a table; it is the first of the arguments. `how` applies it."""

    def fitting(elements: Elements) -> list[str]:
        return [key for key, (fits, _) in table.items() if fits(elements)]

    def apply(side: Side, dataset: Any, given: Any) -> Any:
        function = table[given[0]][1]
        return how(dataset, side.plain(lambda *args: function(side, element(args))), given[1])

    return Step(
        name,
        lambda elements: bool(fitting(elements)),
        lambda elements: st.tuples(st.sampled_from(fitting(elements)), arguments),
        apply,
    )


COUNTS = st.integers(0, 6) | st.sampled_from([-1, 99])
FEW = st.integers(1, 5)


UNIQUE = ("int32", "int64", "string")  # tf.data's unique knows no others

STEPS = [
    Step("take", always, COUNTS, lambda side, ds, n: ds.take(n)),
    Step("skip", always, COUNTS, lambda side, ds, n: ds.skip(n)),
    Step("repeat", always, st.integers(0, 3), lambda side, ds, n: ds.repeat(n)),
    # Never without an end: steps like a filter that keeps nothing would then run for ever.
    Step("repeat for ever", always, COUNTS, lambda side, ds, n: ds.repeat().take(max(0, n))),
    Step(
        "shard",
        always,
        FEW.flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n - 1))),
        lambda side, ds, shard: ds.shard(*shard),
    ),
    Step(
        "batch", always, st.tuples(FEW, st.booleans()), lambda side, ds, args: _encoded(side, ds).batch(*args)
    ),
    Step("enumerate", always, st.integers(-2, 5), lambda side, ds, start: ds.enumerate(start)),
    Step("prefetch", always, st.sampled_from([0, 1, 3, -1]), lambda side, ds, n: ds.prefetch(n)),
    Step("concatenate", always, COUNTS, lambda side, ds, n: ds.concatenate(ds.take(n))),
    Step("zip", always, st.none(), lambda side, ds, _: side.Dataset.zip(ds, ds.skip(1))),
    Step(
        "zip as a dict",
        always,
        st.integers(0, 9),
        lambda side, ds, n: side.Dataset.zip({"b": ds, "a": (side.Dataset.range(n),)}),
    ),
    _calling("map", MAPS, st.none(), lambda ds, f, _: ds.map(f)),
    _calling("map in parallel", MAPS, FEW, lambda ds, f, n: ds.map(f, num_parallel_calls=n)),
    _calling("filter", PREDICATES, st.none(), lambda ds, f, _: ds.filter(f)),
    _calling("take_while", PREDICATES, st.none(), lambda ds, f, _: ds.take_while(f)),
    _calling("flat_map", DATASETS, st.none(), lambda ds, f, _: ds.flat_map(f)),
    _calling(
        "interleave",
        DATASETS,
        st.tuples(FEW, FEW),
        lambda ds, f, args: ds.interleave(f, cycle_length=args[0], block_length=args[1]),
    ),
    Step("unbatch", Elements.can_be_split, st.none(), lambda side, ds, _: ds.unbatch()),
    Step("cache", always, st.none(), lambda side, ds, _: ds.cache()),
    Step("ignore_errors", always, st.none(), lambda side, ds, _: ds.ignore_errors()),
    Step(
        "rebatch",
        Elements.is_batched,
        st.tuples(FEW, st.booleans()),
        lambda side, ds, args: ds.rebatch(args[0], drop_remainder=args[1]),
    ),
    Step(
        "padded_batch",
        lambda e: e.is_plain and all(leaf.rank is not None for leaf in e.leaves),
        st.tuples(FEW, st.booleans()),
        lambda side, ds, args: ds.padded_batch(args[0], drop_remainder=args[1]),
    ),
    Step(
        "unique",
        lambda e: e.is_single and e.is_plain and e.first.rank == 0 and e.first.dtype in UNIQUE,
        st.none(),
        lambda side, ds, _: ds.unique(),
    ),
    Step(
        "window",
        lambda e: e.is_single and e.is_plain,
        st.tuples(FEW, st.none() | FEW, FEW, st.booleans()),
        lambda side, ds, args: ds.window(*args).flat_map(side.plain(lambda w: w.batch(9))),
    ),
    Step(
        "scan",
        always,
        st.integers(0, 3),
        lambda side, ds, start: ds.scan(
            np.int64(start), side.plain(lambda count, *args: (count + 1, (count, element(args))))
        ),
    ),
    Step(
        "group_by_window",
        lambda e: e.starts_with("int"),
        st.tuples(FEW, FEW),
        lambda side, ds, args: ds.group_by_window(
            side.plain(lambda *x: side.int64(first(x)) % args[0]),
            side.plain(lambda key, window: window.batch(4)),
            window_size=args[1],
        ),
    ),
    Step(
        "choose_from_datasets",
        # Scalars: of others, tf.data itself forgets the shape, and a concatenate then fails.
        lambda e: e.is_single and e.first.rank == 0,
        st.tuples(st.lists(st.integers(0, 1), min_size=1, max_size=5), st.booleans()),
        lambda side, ds, args: side.Dataset.choose_from_datasets(
            [ds, ds.skip(2)],
            side.Dataset.from_tensor_slices(np.array(args[0], np.int64)).repeat(3),
            stop_on_empty_dataset=args[1],
        ),
    ),
]


SMALL = st.integers(0, 9)
NAMES = st.sampled_from(["", "a", "bb", "\0c", "é"])
DTYPES = ["bool", "int32", "int64", "uint8", "float16", "float32", "float64", "complex64", ml_dtypes.bfloat16]


def _arrays(side: Side, given: Any) -> Any:
    dtype, shape, numbers = given
    size = int(np.prod(shape))
    return side.Dataset.from_tensor_slices(
        np.resize(np.array(numbers), (len(numbers), *shape)).astype(dtype)
        if size
        else np.zeros((len(numbers), *shape), dtype)
    )


def _table(side: Side, given: Any) -> Any:
    numbers, names = [one for one, _ in given], [name.encode() for _, name in given]
    strings = np.array(names, object)
    table = {
        "x": np.array(numbers, np.float32),
        "name": (strings, None),
        "y": np.array(numbers, np.int32)[:, None],
    }
    return side.Dataset.from_tensor_slices(table)


def _ragged(side: Side, lengths: list[int]) -> Any:
    splits = np.cumsum([0, *lengths])
    return side.Dataset.from_tensor_slices(side.ragged(np.arange(splits[-1]), splits))


SOURCES = [
    Source(
        "range",
        st.tuples(SMALL, SMALL, st.sampled_from([1, 2, -1])),
        lambda side, args: side.Dataset.range(*args),
    ),
    Source(
        "arrays",
        st.tuples(
            st.sampled_from(DTYPES),
            st.sampled_from([(), (2,), (2, 2), (0,)]),
            st.lists(SMALL, min_size=1, max_size=8),
        ),
        _arrays,
    ),
    Source(
        "strings",
        st.lists(NAMES, min_size=1, max_size=8),
        lambda side, names: side.Dataset.from_tensor_slices(np.array([n.encode() for n in names], object)),
    ),
    Source("table", st.lists(st.tuples(SMALL, NAMES), min_size=1, max_size=8), _table),
    Source("ragged", st.lists(st.integers(0, 3), min_size=1, max_size=8), _ragged),
    Source(
        "whole",
        st.tuples(SMALL, NAMES),
        lambda side, args: side.Dataset.from_tensors({"n": (args[0], args[1]), "list": [1.5, 2.5]}),
    ),
]

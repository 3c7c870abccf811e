"""to_tf: a tf.data.Dataset of the same elements, whose arrays TensorFlow takes without a copy.

Elements cross as flat tuples of arrays, a Ragged as its values and row splits, and are put together again in
TensorFlow: from_generator copies every tensor once more where its signature holds anything but TensorSpecs.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np

from feedline.adapt.environment import part_of_this_process
from feedline.adapt.frameworks import need
from feedline.column import Ragged, aligned
from feedline.errors import UsageError
from feedline.graph import UNKNOWN
from feedline.graph.node import tree
from feedline.ops import Shard
from feedline.spec import STRING, ArraySpec, ObjectSpec, RaggedSpec, Spec, dtype_name
from feedline.structure import Structure, flatten

if TYPE_CHECKING:
    from feedline.dataset import Dataset

Run = Callable[[], Generator[Any]]
"""Begins an iteration; closing what it gives ends it."""


def to_tf(dataset: Dataset) -> Any:
    def run() -> Generator[Any]:
        with iter(dataset) as elements:
            yield from elements

    tf = need("tensorflow", "to_tf()", "tf")
    made, count = from_runs(tf, dataset, run), dataset.cardinality()
    return made if count == UNKNOWN else made.apply(tf.data.experimental.assert_cardinality(count))


def from_runs(tf: Any, dataset: Dataset, run: Run) -> Any:
    """The tf.data.Dataset, of unknown cardinality, of what `run` gives: elements of the dataset."""
    specs, structure = _checked(dataset.element_spec)

    def flat() -> Iterator[tuple[Any, ...]]:
        # TensorFlow drops this generator with its own iterator. Closing then reaches the dataset's.
        with closing(run()) as elements:
            for element in elements:
                yield tuple(part for leaf in structure.leaves_of(element) for part in _parts(leaf))

    def rebuilt(*parts: Any) -> Any:
        left = iter(parts)
        return structure.unflatten([_tensor(tf, spec, left) for spec in specs])

    signature = tuple(part for spec in specs for part in _part_specs(tf, spec))
    made = tf.data.Dataset.from_generator(flat, output_signature=signature)
    made = made.map(tf.autograph.experimental.do_not_convert(rebuilt))
    if _is_sharded_already(dataset):
        options = tf.data.Options()
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
        made = made.with_options(options)
    return made


def _checked(element_spec: Any) -> tuple[list[Spec], Structure]:
    specs, structure = flatten(element_spec)
    for spec, path in zip(specs, structure.paths(), strict=True):
        if isinstance(spec, ObjectSpec):
            raise UsageError(
                f"to_tf(): {path} is no array, or of no single dtype, and TensorFlow has no such tensors.\n"
                "  Make an array of it, with map(...). The datasets that window(...) gives: flat_map(...)."
            )
    return specs, structure


def _ragged_rank(spec: Spec) -> int:
    return spec.ragged_rank if isinstance(spec, RaggedSpec) else 0  # it is 0, too, of a Ragged's rows


def _part_specs(tf: Any, spec: Spec) -> list[Any]:
    assert isinstance(spec, ArraySpec | RaggedSpec)
    dtype, rank = tf.dtypes.as_dtype(dtype_name(spec.dtype)), _ragged_rank(spec)
    if rank == 0:
        return [tf.TensorSpec(spec.shape, dtype)]
    assert spec.shape is not None
    rows = spec.shape[0]
    outer = tf.TensorSpec((None if rows is None else rows + 1,), tf.int64)
    inner = [tf.TensorSpec((None,), tf.int64)] * (rank - 1)
    return [tf.TensorSpec((None, *spec.shape[rank + 1 :]), dtype), outer, *inner]


def _parts(leaf: Any) -> list[Any]:
    """What `_part_specs` says, of a value."""
    splits = []
    while isinstance(leaf, Ragged):
        splits.append(leaf.offsets)
        leaf = leaf.values
    if isinstance(leaf, np.ndarray) and leaf.dtype != STRING and leaf.ndim:
        leaf = aligned(leaf)  # TensorFlow's own copy of what is not aligned is several times slower
    return [leaf, *splits]


def _tensor(tf: Any, spec: Spec, parts: Iterator[Any]) -> Any:
    values = next(parts)
    splits = [next(parts) for _ in range(_ragged_rank(spec))]
    return tf.RaggedTensor.from_nested_row_splits(values, splits, validate=False) if splits else values


def _is_sharded_already(dataset: Dataset) -> bool:
    """Did the user choose this process's shard? Then a tf.distribute strategy must not shard once more."""
    part = part_of_this_process()
    if part is None or part[0] == 1:
        return False
    shards = (node for node in tree(dataset._node) if isinstance(node, Shard))
    return any((node.num_shards, node.index) == part for node in shards)

"""to_tf: a tf.data.Dataset of the same elements, whose arrays TensorFlow takes without a copy.

A crossing costs as much as a step of a small model, so small elements cross in groups: as many as are there
already, so that none waits for the next. TensorFlow slices the groups, again without a copy where a slice is
aligned. What is large, or has no one shape, crosses in groups of one.

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
from feedline.adapt.progress import blocks
from feedline.adapt.until_exit import until_exit
from feedline.block import Block
from feedline.column import Bytes, Ragged, aligned, as_batch, row_of
from feedline.errors import UsageError
from feedline.graph import UNKNOWN
from feedline.graph.node import tree
from feedline.ops import DistributeSplit, Shard
from feedline.spec import STRING, ArraySpec, ObjectSpec, RaggedSpec, Spec, dtype_name
from feedline.structure import Structure, flatten

if TYPE_CHECKING:
    from feedline.dataset import Dataset

Run = Callable[[], Generator[Block]]
"""Begins an iteration; closing what it gives ends it."""

_SMALL = 64 << 10  # bytes of an element; where its slice is not aligned, to copy so many costs little
_GROUP = 64  # elements in a crossing


def to_tf(dataset: Dataset) -> Any:
    def run() -> Generator[Block]:
        with iter(dataset) as elements:
            yield from blocks(elements)

    tf = need("tensorflow", "to_tf()", "tf")
    made, count = from_runs(tf, dataset, dataset.element_spec, run), dataset.cardinality()
    return made if count == UNKNOWN else made.apply(tf.data.experimental.assert_cardinality(count))


def from_runs(tf: Any, dataset: Dataset, element_spec: Any, run: Run) -> Any:
    """The tf.data.Dataset, of unknown cardinality, of what `run` gives: elements of the dataset."""
    specs, structure = _checked(element_spec)

    def crossings() -> Generator[tuple[Any, ...]]:
        # TensorFlow drops this generator with its own iterator. Closing then reaches the dataset's.
        with closing(run()) as read:
            for block in read:
                yield from _crossings(block)

    def elements_of(*group: Any) -> Any:
        return tf.data.Dataset.from_tensor_slices(group)

    def rebuilt(*parts: Any) -> Any:
        left = iter(parts)
        return structure.unflatten([_tensor(tf, spec, left) for spec in specs])

    signature = tuple(part for spec in specs for part in _part_specs(tf, spec))
    groups = tf.data.Dataset.from_generator(lambda: until_exit(crossings()), output_signature=signature)
    as_it_is = tf.autograph.experimental.do_not_convert
    made = groups.flat_map(as_it_is(elements_of)).map(as_it_is(rebuilt))
    # Where a tf.distribute strategy shards, it must be by elements: by itself it would take groups for files.
    policy, options = tf.data.experimental.AutoShardPolicy, tf.data.Options()
    sharded = _is_sharded_already(dataset)
    options.experimental_distribute.auto_shard_policy = policy.OFF if sharded else policy.DATA
    return made.with_options(options)


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
    """Of what crosses: the first dimension is that of the group."""
    assert isinstance(spec, ArraySpec | RaggedSpec)
    dtype, rank = tf.dtypes.as_dtype(dtype_name(spec.dtype)), _ragged_rank(spec)
    if spec.shape is None:
        return [tf.TensorSpec(None, dtype)]
    if rank == 0:
        return [tf.TensorSpec((None, *spec.shape), dtype)]
    rows = spec.shape[0]
    outer = tf.TensorSpec((None, None if rows is None else rows + 1), tf.int64)
    inner = [tf.TensorSpec((None, None), tf.int64)] * (rank - 1)
    return [tf.TensorSpec((None, None, *spec.shape[rank + 1 :]), dtype), outer, *inner]


def _crossings(block: Block) -> Iterator[tuple[Any, ...]]:
    """What `_part_specs` says, of groups of rows."""
    columns = block.columns
    if not all(isinstance(column, np.ndarray | Bytes) for column in columns):
        for row in range(block.rows):
            leaves = [row_of(column, row) for column in columns]
            yield tuple(_group_of_one(part) for leaf in leaves for part in _parts(leaf))
        return
    size = _GROUP if block.nbytes <= _SMALL * block.rows else 1
    for begin in range(0, block.rows, size):
        group = block.slice(begin, min(begin + size, block.rows))
        yield tuple(as_batch(aligned(column)) for column in group.columns)


def _parts(leaf: Any) -> list[Any]:
    splits = []
    while isinstance(leaf, Ragged):
        splits.append(leaf.offsets)
        leaf = leaf.values
    return [leaf, *splits]


def _group_of_one(part: Any) -> Any:
    if isinstance(part, bytes):
        return np.array([part], object)
    group = part[np.newaxis]
    return group if group.dtype == STRING else aligned(group)


def _tensor(tf: Any, spec: Spec, parts: Iterator[Any]) -> Any:
    values = next(parts)
    splits = [next(parts) for _ in range(_ragged_rank(spec))]
    return tf.RaggedTensor.from_nested_row_splits(values, splits, validate=False) if splits else values


def _is_sharded_already(dataset: Dataset) -> bool:
    """Did the user choose this process's shard? Then a tf.distribute strategy must not shard once more."""
    if any(isinstance(node, DistributeSplit) for node in tree(dataset._node)):
        return True
    part = part_of_this_process()
    if part is None or part[0] == 1:
        return False
    shards = (node for node in tree(dataset._node) if isinstance(node, Shard))
    return any((node.num_shards, node.index) == part for node in shards)

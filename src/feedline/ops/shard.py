"""shard: every `num_shards`th element, or the elements of every `num_shards`th file where there are many.

Whether files stay whole depends on nothing but the list of files and the number of shards: all processes that
divide the same files must come to the same answer, and each may see other indexes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from feedline.block import Block
from feedline.errors import UsageError
from feedline.graph import Context, Cursor, Indices, Node, Peek, State, Stream, cardinality, tree
from feedline.graph.arguments import check_int
from feedline.graph.indexed import InOrder
from feedline.graph.node import Site, with_inputs
from feedline.ops.interleave import Interleave
from feedline.ops.list_files import Files
from feedline.ops.options import Options
from feedline.ops.tfrecords import TFRecords

# Fewer would make shards of too different a size: with 8 files each, one more or less is an eighth.
_FILES_EACH = 8


def shard(node: Node, num_shards: int, index: int, site: Site) -> Shard:
    """A shard of what the node gives: of whole files, where it reads at least 8 files for each shard."""
    by_element = Shard(node, num_shards, index, site=site)
    paths = _paths(node)
    if len(paths) < _FILES_EACH * num_shards:
        return by_element
    return FileShard(_reading(node, paths[index::num_shards]), num_shards, index, paths, site=site)


def by_elements(root: Node) -> Node:
    """The pipeline with every shard divided by elements, as version 0.1 did it."""
    made: dict[Node, Node] = {}  # a node that is used twice stays one node

    def changed(node: Node) -> Node:
        if node not in made:
            if isinstance(node, FileShard):
                whole = changed(_reading(node.input, node.whole))
                made[node] = Shard(whole, node.num_shards, node.index, site=node.site)
            else:
                made[node] = with_inputs(node, changed)
        return made[node]

    return changed(root) if any(isinstance(node, FileShard) for node in tree(root)) else root


def _paths(node: Node) -> tuple[Any, ...]:
    """The files whose records the node gives, if it gives nothing else."""
    if isinstance(node, TFRecords):
        return node.paths
    if isinstance(node, Interleave) and isinstance(node.input, Files):  # num_parallel_reads
        return node.input.paths
    return _paths(node.input) if isinstance(node, Options | FileShard) else ()


def _reading(node: Node, paths: tuple[Any, ...]) -> Node:
    """The node with other files."""
    if isinstance(node, TFRecords):
        return replace(node, paths=paths)
    if isinstance(node, Files):
        return replace(node, paths=paths)
    return with_inputs(node, lambda input: _reading(input, paths))


@dataclass(frozen=True, eq=False)
class Shard(Node):
    input: Node
    num_shards: int
    index: int

    passes_rows_on = True
    is_portable = True

    def __post_init__(self) -> None:
        check_int(self, "num_shards", 1, "there must be 1 shard at least.")
        check_int(self, "index", 0, "index must be 0 or more.")
        if self.index >= self.num_shards:
            raise UsageError(
                f"shard(num_shards={self.num_shards}, index={self.index}): index must be 0 to "
                f"{self.num_shards - 1}."
            )

    def _of(self, number: int) -> int:
        return max(0, -(-(number - self.index) // self.num_shards))

    def length(self) -> int | None:
        length = self.input.length()
        return length if length is None else self._of(length)

    def cardinality(self) -> int:
        of_input = self.input.cardinality()
        return cardinality.apply(of_input, self._of(of_input))

    def spec(self, peek: Peek | None) -> Any:
        return self.input.spec(peek)

    def is_read_by_index(self) -> bool:
        return self.length() is not None

    def gather(self, indices: Indices, context: Context) -> Block:
        return context.gather(self.input, indices * self.num_shards + self.index)

    def open(self, context: Context, state: State) -> Stream:
        if self.is_read_by_index():
            return InOrder(self, context, state)
        return _ShardStream(self, context, state)


@dataclass(frozen=True, eq=False)
class FileShard(Shard):
    """The elements of this shard's files. The input reads no others."""

    whole: tuple[Any, ...] = field(compare=False)  # the files of all shards

    def length(self) -> int | None:
        return self.input.length()

    def cardinality(self) -> int:
        return self.input.cardinality()

    def is_read_by_index(self) -> bool:
        return False

    def gather(self, indices: Indices, context: Context) -> Block:
        return context.gather(self.input, indices)

    def open(self, context: Context, state: State) -> Stream:
        return context.open(self.input, state)

    def remark(self) -> str:
        return f"whole files, {len(_paths(self.input)):,} of {len(self.whole):,}."


class _ShardStream(Stream):
    def __init__(self, node: Shard, context: Context, state: State) -> None:
        self._node = node
        self._rows = Cursor(context, node.input, state)

    def next(self, limit: int) -> Block | None:
        shards = self._node.num_shards
        while True:
            first = self._rows.passed
            block = self._rows.take(limit * shards)
            if block is None:
                return None
            ours = np.arange((self._node.index - first) % shards, block.rows, shards)
            if len(ours):
                return block.take(ours)

    def state(self) -> State:
        return self._rows.state()

    def close(self) -> None:
        self._rows.close()

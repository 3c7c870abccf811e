"""A warning when the workers of from_generator all yield the same elements, because `shard` is ignored.

The elements of the shards come by turns, so the first few of each can be compared as they pass. Nothing is
kept of those that follow, and a generator is compared once.
"""

from __future__ import annotations

import warnings
from typing import Any
from weakref import WeakSet

import numpy as np

from feedline.block import Block
from feedline.column import Ragged
from feedline.graph import Node
from feedline.structure import flatten

_MOST = 8  # elements of each shard that are compared
_FEWEST = 3  # that a shard must have, all different: a constant tells nothing
_SAMPLED = 4096  # values of an array that are compared, at equal distances

_compared: WeakSet[Node] = WeakSet()


class SameShards:
    """Compares the shards of one generator; `see` all blocks from the first on, until `is_done`."""

    def __init__(self, generator: Node, shards: int) -> None:
        self._generator = generator
        self._shards = shards
        self._samples: list[Any] = []
        self.is_done = shards < 2 or generator in _compared

    def see(self, block: Block | None) -> None:
        """The next block of all shards by turns; None at the end."""
        wanted = _MOST * self._shards - len(self._samples)
        if block is not None:
            self._samples += map(_sample, block.slice(0, min(wanted, block.rows)))
        if block is None or block.rows >= wanted:
            self.is_done = True
            _compared.add(self._generator)
            self._compare()

    def _compare(self) -> None:
        first, *others = (self._samples[shard :: self._shards] for shard in range(self._shards))
        if len(set(first)) < _FEWEST or any(other != first for other in others):
            return
        site = self._generator.site
        assert site is not None
        warnings.warn_explicit(
            f"{self._generator}: all {self._shards} workers seem to yield the same elements; the first "
            f"{len(first)} of each are equal. So every element comes {self._shards} times.\n"
            "  Yield only the part that `shard` names, for example items[shard.index :: shard.count].",
            RuntimeWarning,
            site.file,
            site.line,
        )


def _sample(element: Any) -> tuple[Any, ...]:
    return tuple(map(_sample_of_leaf, flatten(element)[0]))


def _sample_of_leaf(leaf: Any) -> Any:
    """Something that can be hashed, and is equal for equal leaves."""
    if isinstance(leaf, bytes):
        return leaf
    if isinstance(leaf, Ragged):
        return _sample_of_leaf(np.asarray(leaf.offsets)), _sample_of_leaf(leaf.values)
    if not isinstance(leaf, np.ndarray | np.generic):
        return object()  # which nothing else is equal to
    some = leaf.reshape(-1)[:: max(1, leaf.size // _SAMPLED)]
    return leaf.shape, leaf.dtype, tuple(some.tolist()) if leaf.dtype.hasobject else some.tobytes()

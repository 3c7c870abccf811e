"""What streams ask of their Context, done in this process."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

from feedline.block import Block
from feedline.graph import Context, Indices, Node, State, Stream, tree
from feedline.run.background import Background
from feedline.run.measure import Measure, Measured

# A block that a user's function fills is handed on after so long: a slow function should not keep its first
# results back until a block is full.
_PATIENCE = 0.005


_NODES_KEPT = 4  # of each step of datasets that functions made


class LocalServices:
    """One for each iteration; it holds the iteration's measurements."""

    def __init__(self, root: Node | None = None) -> None:
        self.measures: dict[Any, Measure] = {}
        self.cores = len(os.sched_getaffinity(0))
        self._gathered: WeakSet[Node] = WeakSet()  # nodes that were read by index
        self._own = frozenset(tree(root)) if root is not None else frozenset()

    def measured(self, node: Node, stream: Stream) -> Stream:
        measure = self._measure_of(node)
        measure.opened += 1
        return Measured(stream, measure)

    def gathered(self, node: Node, indices: Indices, context: Context) -> Block:
        measure = self._measure_of(node)
        if node not in self._gathered:
            self._gathered.add(node)
            measure.opened += 1
        return measure.count(lambda: node.gather(indices, context))

    def _measure_of(self, node: Node) -> Measure:
        # Functions may make datasets without end: they are told apart by where they were made.
        key = node if node in self._own else (type(node), node.site)
        measure = self.measures.get(key)
        if measure is None:
            measure = self.measures.setdefault(key, Measure([]))
        if len(measure.nodes) < _NODES_KEPT and node not in measure.nodes:
            measure.nodes.append(node)
        return measure

    def background(
        self, start: Callable[[State], Stream], state: State, rows: int, nbytes: int | None = None
    ) -> Stream:
        return Background(start, state, rows, nbytes)

    def deadline(self) -> Callable[[], bool]:
        end = time.perf_counter() + _PATIENCE
        return lambda: time.perf_counter() > end

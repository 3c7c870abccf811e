"""How many rows a step gave, and how long it took: each stream is wrapped in one that counts."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from feedline.block import Block
from feedline.graph import Node, State, Stream


@dataclass
class Measure:
    """Of one step in one iteration. Times are in seconds, and without those of the steps before it.

    A step of the datasets that a function made, of interleave say, has one for all of them.
    """

    nodes: list[Node]  # the first few: a node may hold much memory
    opened: int = 0
    elements: int = 0
    blocks: int = 0
    bytes: int = 0
    busy: float = 0.0
    waiting: float = 0.0  # for another thread


class _Inner(threading.local):
    spent = 0.0  # by the streams that the running one called


_inner = _Inner()


class Measured(Stream):
    def __init__(self, stream: Stream, measure: Measure) -> None:
        self._stream = stream
        self._measure = measure

    def next(self, limit: int) -> Block | None:
        measure = self._measure
        before, waited = _inner.spent, self._stream.waited
        _inner.spent = 0.0
        start = time.perf_counter()
        try:
            block = self._stream.next(limit)
        finally:
            spent = time.perf_counter() - start
            waited = self._stream.waited - waited
            measure.busy += spent - _inner.spent - waited
            measure.waiting += waited
            _inner.spent = before + spent
        if block is not None:
            measure.elements += block.rows
            measure.blocks += 1
            measure.bytes += block.nbytes
        return block

    def state(self) -> State:
        return self._stream.state()

    def close(self) -> None:
        self._stream.close()

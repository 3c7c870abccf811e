"""A job whose rows are read where it is done: only their numbers are sent there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from feedline.block import Block
from feedline.graph import Context, Node, State
from feedline.graph.calls import Collector
from feedline.graph.indexed import InOrder
from feedline.graph.job import Job


@dataclass(frozen=True)
class ByNumber:
    job: Job
    node: Node  # has the rows
    context: Context
    state: State  # of a stream of the node: it may hold a seed

    @property
    def step(self) -> str:
        return self.job.step

    @property
    def function(self) -> Callable[..., Any]:
        return self.job.function

    @cached_property
    def _rows(self) -> InOrder:
        stream = self.node.open(self.context, self.state)
        assert isinstance(stream, InOrder)
        return stream

    def run(self, numbers: Block, first: int, late: Callable[[], bool]) -> tuple[Collector, Exception | None]:
        (wanted,) = numbers.columns
        assert isinstance(wanted, np.ndarray)
        while True:
            try:
                rows = self._rows.gather(wanted)
            except Exception as error:
                if len(wanted) == 1:
                    return Collector(self.step), error
                # One of them fails, and nobody says which: those in front of it must come first.
                wanted = wanted[: len(wanted) // 2]
            else:
                return self.job.run(rows, first, late)

    def __reduce__(self) -> tuple[Any, ...]:
        return ByNumber, (self.job, self.node, self.context, self.state)  # without what is only cached

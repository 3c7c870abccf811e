"""range: numbers in steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from feedline.block import Block
from feedline.errors import UsageError
from feedline.graph import Context, Indices, Node, Peek, State, Stream
from feedline.graph.arguments import check_number
from feedline.graph.indexed import InOrder
from feedline.spec import ArraySpec, dtype_of
from feedline.structure import flatten

_STRUCTURE = flatten(0)[1]


@dataclass(frozen=True, eq=False)
class Range(Node):
    start: int
    stop: int
    step: int
    output_type: str = "int64"

    def __post_init__(self) -> None:
        check_number(self, "output_type", "iufcV")

    @classmethod
    def of(cls, args: tuple[int, ...], output_type: Any, **site: Any) -> Range:
        """As Python's range takes them."""
        if not 1 <= len(args) <= 3:
            raise UsageError(f"range{args}: give stop; start and stop; or start, stop and step.")
        for arg in args:
            if isinstance(arg, bool) or not isinstance(arg, int | np.integer) or not -(2**63) <= arg < 2**63:
                raise UsageError(f"range{args}: {arg!r} is not a 64-bit integer.")
        start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
        if step == 0:
            raise UsageError(f"range{args}: step must not be 0.")
        return cls(int(start), int(stop), int(step), output_type, **site)

    def length(self) -> int:
        return max(0, -((self.start - self.stop) // self.step))  # len(range(...)) may be too large for len

    def cardinality(self) -> int:
        return self.length()

    def spec(self, peek: Peek | None) -> Any:
        return ArraySpec((), dtype_of(self.output_type))

    def gather(self, indices: Indices, context: Context) -> Block:
        # Counted as int64, as tf.data does: what is too large for the dtype begins anew.
        numbers = (self.start + indices * self.step).astype(dtype_of(self.output_type), copy=False)
        return Block._trusted(_STRUCTURE, [numbers], len(indices))

    def open(self, context: Context, state: State) -> Stream:
        return InOrder(self, context, state)

"""counter: numbers in steps, without an end."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from feedline.block import Block
from feedline.errors import UsageError
from feedline.graph import INFINITE, Context, Node, Peek, State, Stream
from feedline.graph.arguments import check_number
from feedline.spec import ArraySpec, dtype_of
from feedline.structure import flatten

_STRUCTURE = flatten(0)[1]


@dataclass(frozen=True, eq=False)
class Counter(Node):
    """Each is the one before it and the step, as the dtype adds them: integers begin anew where they end."""

    start: float
    step: float
    dtype: str

    def __post_init__(self) -> None:
        check_number(self, "dtype", "iufV")
        for name in ("start", "step"):
            object.__setattr__(self, name, self._number(name))

    def _number(self, name: str) -> float:
        """The argument as a plain number that the dtype can hold; integers as it holds them."""
        value, dtype = getattr(self, name), dtype_of(self.dtype)
        is_int = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if dtype.kind in "iu":
            if is_int and -(2**63) <= value < 2 ** (64 if dtype == np.uint64 else 63):
                return int(np.array(int(value)).astype(dtype))
        elif is_int or isinstance(value, float | np.floating):
            with suppress(OverflowError):
                return float(value)
        raise UsageError(f"{self.name}({name}={value!r}): {name} must be a number of dtype {self.dtype}.")

    def cardinality(self) -> int:
        return INFINITE

    def spec(self, peek: Peek | None) -> Any:
        return ArraySpec((), dtype_of(self.dtype))

    def open(self, context: Context, state: State) -> Stream:
        return _CounterStream(self, context, state)


class _CounterStream(Stream):
    def __init__(self, node: Counter, context: Context, state: State) -> None:
        self._dtype = dtype_of(node.dtype)
        self._step = node.step
        self._rows = context.block_rows
        self._at = node.start if state is None else state

    def next(self, limit: int) -> Block | None:
        rows = min(limit, self._rows)
        with np.errstate(over="ignore"):  # then they are infinite, as in tf.data
            numbers = np.full(rows + 1, self._step, self._dtype)
            numbers[0] = self._at
            np.add.accumulate(numbers, out=numbers)
        self._at = numbers[rows].item()
        return Block._trusted(_STRUCTURE, [numbers[:rows]], rows)

    def state(self) -> State:
        return self._at

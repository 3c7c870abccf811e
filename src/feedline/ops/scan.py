"""scan: a function of each element and of a state, which it hands on to the next call."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from feedline.block import Block
from feedline.errors import WrongKind
from feedline.graph import Context, Node, Peek, State, Stream
from feedline.graph.arguments import check_function
from feedline.graph.calls import blame, no_end, own, whole_result
from feedline.ops.carried import Carried, first_state
from feedline.ops.each import EachStream
from feedline.structure import flatten


@dataclass(frozen=True, eq=False)
class Scan(Node):
    input: Node
    initial_state: Any
    scan_func: Callable[..., Any]  # of a state and an element, gives a pair of them

    runs_python = True

    def __post_init__(self) -> None:
        check_function(self, "scan_func")
        object.__setattr__(self, "initial_state", first_state(self.initial_state, self.name))

    def cardinality(self) -> int:
        return self.input.cardinality()

    def spec(self, peek: Peek | None) -> Any:
        return peek(self) if peek else None

    def open(self, context: Context, state: State) -> Stream:
        return _ScanStream(self, context, state)

    def reduced(self, elements: Iterable[Any]) -> Any:
        """For `reduce`, whose function returns a state only: the last one."""
        carried = Carried(self, self.initial_state)
        for number, element in enumerate(elements):
            try:
                state = whole_result(self.scan_func(carried.value, element))
                carried.set(carried.checked(state))
            except Exception as error:
                blame(error, self, number)
                if isinstance(error, StopIteration):
                    raise no_end(error) from error
                raise
        leaves, structure = flatten(carried.value)
        return structure.unflatten([leaf.copy() if isinstance(leaf, np.ndarray) else leaf for leaf in leaves])


class _ScanStream(EachStream):
    _node: Scan

    def __init__(self, node: Scan, context: Context, state: State) -> None:
        before, saved = state or (None, None)
        super().__init__(node, context, node.input, before)
        self._carried = Carried(node, node.initial_state, saved)

    def _fill(self, block: Block) -> Exception | None:
        late = self._context.services.deadline()
        carried = copy(self._carried)  # an interrupt must not leave a state that is ahead of the results
        failed = None
        for element in block:
            try:
                self._step(carried, element)
            except Exception as error:
                failed = error
                break
            if late():
                break
        self._carried = carried
        return failed

    def _step(self, carried: Carried, element: Any) -> None:
        pair = self._node.scan_func(carried.value, element)
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise WrongKind(
                f"{self._node}: the function must return a pair, the new state and an element, "
                f"not {type(pair).__name__}."
            )
        state, result = pair
        leaves = carried.checked(state)
        self._results.add(own(result))
        carried.set(leaves)

    def state(self) -> State:
        return [super().state(), self._carried.to_json()]

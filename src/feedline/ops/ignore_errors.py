"""ignore_errors: without the elements that fail."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

from feedline.block import Block
from feedline.graph import UNKNOWN, Context, Node, Peek, State, Stream
from feedline.graph.arguments import check_bool


@dataclass(frozen=True, eq=False)
class IgnoreErrors(Node):
    input: Node
    log_warning: bool = field(compare=False)

    def __post_init__(self) -> None:
        check_bool(self, "log_warning")

    def cardinality(self) -> int:
        return UNKNOWN

    def spec(self, peek: Peek | None) -> Any:
        try:
            return self.input.spec(peek)
        except Exception:
            if peek is None:
                raise
            return peek(self)  # the first element of the input failed; those that come through can tell, too

    def open(self, context: Context, state: State) -> Stream:
        return _IgnoreErrorsStream(self, context, state)


class _IgnoreErrorsStream(Stream):
    def __init__(self, node: IgnoreErrors, context: Context, state: State) -> None:
        self._node = node
        self._input = context.open(node.input, state)

    def next(self, limit: int) -> Block | None:
        last: tuple[Any, ...] | None = None
        while True:
            try:
                return self._input.next(limit)
            except Exception as error:
                # An input that fails in the same way at the same place would be asked for ever.
                this = (type(error), str(error), getattr(error, "__notes__", None), self._input.state())
                if this == last:
                    raise
                last = this
                if self._node.log_warning:
                    warnings.warn(_told(self._node, error), RuntimeWarning, stacklevel=2)

    def state(self) -> State:
        return self._input.state()

    def close(self) -> None:
        self._input.close()


def _told(node: Node, error: Exception) -> str:
    lines = [f"{node}: an element was dropped: {type(error).__name__}: {error}"]
    return "\n".join([*lines, *getattr(error, "__notes__", [])])

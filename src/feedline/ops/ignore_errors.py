"""ignore_errors: without the elements that fail.

What is wrong with the program, and not with an element, is not ignored: all elements would be gone, silently.
tf.data refuses such functions when it traces them.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

from feedline.block import Block
from feedline.errors import WrongKind
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
        self._dropped = 0
        self._first = ""  # of those that were dropped, as text, until an element has come through
        self._is_new = state is None

    def next(self, limit: int) -> Block | None:
        last: tuple[Any, ...] | None = None
        while True:
            try:
                block = self._input.next(limit)
            except Exception as error:
                if isinstance(error, WrongKind | NameError):
                    raise
                # An input that fails in the same way at the same place would be asked for ever.
                this = (type(error), str(error), getattr(error, "__notes__", None), self._input.state())
                if this == last:
                    raise
                last = this
                self._drop(error)
                continue
            if block is None:
                self._tell_if_all_failed()
            self._is_new, self._first = False, ""
            return block

    def _drop(self, error: Exception) -> None:
        self._dropped += 1
        if self._is_new and not self._first:
            self._first = _told(error)
        if self._node.log_warning:
            self._warn(f"an element was dropped: {_told(error)}")

    def _tell_if_all_failed(self) -> None:
        if self._first:
            self._warn(f"no element is left, all {self._dropped:,} failed. The first: {self._first}")

    def _warn(self, text: str) -> None:
        warnings.warn(f"{self._node}: {text}", RuntimeWarning, stacklevel=2)

    def state(self) -> State:
        return self._input.state()

    def close(self) -> None:
        self._input.close()


def _told(error: Exception) -> str:
    return "\n".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", [])])

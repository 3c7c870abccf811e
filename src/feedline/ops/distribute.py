"""distribute: the steps before run in a reader service, which several processes share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from feedline.block import Block
from feedline.errors import UsageError
from feedline.graph import Context, Indices, Node, Peek, State, Stream
from feedline.serve.address import check_address
from feedline.serve.client import ServedStream


@dataclass(frozen=True, eq=False)
class Distribute(Node):
    """mode="whole": states are those of the input, so they are good with the service and without it."""

    input: Node
    address: str = field(compare=False)
    fallback: str | None = field(default=None, compare=False)

    gives_its_input = True
    keeps_positions = True
    keeps_draws = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "address", check_address(self.name, self.address))
        self._check("fallback", (None, "local"))

    def _check(self, name: str, allowed: tuple[str | None, ...]) -> None:
        value = getattr(self, name)
        if value not in allowed:
            raise UsageError(f"{self.name}({name}={value!r}): give {' or '.join(map(repr, allowed))}.")

    def length(self) -> int | None:
        return self.input.length()

    def cardinality(self) -> int:
        return self.input.cardinality()

    def spec(self, peek: Peek | None) -> Any:
        return self.input.spec(peek)

    def gather(self, indices: Indices, context: Context) -> Block:
        return context.gather(self.input, indices)

    def open(self, context: Context, state: State) -> Stream:
        return ServedStream(str(self), self.address, self.input, context, state, self.fallback)

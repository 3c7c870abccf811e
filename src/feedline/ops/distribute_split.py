"""distribute(mode="split"): a reader service runs the steps before, and divides their elements."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from feedline.errors import UsageError
from feedline.graph import INFINITE, UNKNOWN, Context, Node, Peek, State, Stream
from feedline.serve.address import check_address
from feedline.serve.request import split_request
from feedline.serve.split_client import SplitStream, client_name


@dataclass(frozen=True, eq=False)
class DistributeSplit(Node):
    """Which elements come here depends on how fast the other clients are."""

    input: Node
    address: str = field(compare=False)
    ack: str = field(default="next", compare=False)
    job: str | None = field(default=None, compare=False)
    rank: int | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "address", check_address(self.name, self.address))
        if self.ack not in ("next", "state"):
            raise UsageError(f"{self.name}(ack={self.ack!r}): give 'next' or 'state'.")
        if self.job is not None and (not isinstance(self.job, str) or not 0 < len(self.job) <= _MOST_NAME):
            raise UsageError(
                f"{self.name}(job={self.job!r}): give a name, of {_MOST_NAME} characters at most."
            )

    def cardinality(self) -> int:
        return INFINITE if self.input.cardinality() == INFINITE else UNKNOWN

    def spec(self, peek: Peek | None) -> Any:
        return self.input.spec(peek)

    def open(self, context: Context, state: State) -> Stream:
        if context.services.looks_only:  # what is only looked at must not be missed by anyone
            return context.open(self.input)
        request = split_request(str(self), self.input, context, self.job)
        name = client_name(self, self.rank)
        return SplitStream(str(self), self.address, self.ack, name, request, context, state)


_MOST_NAME = 200

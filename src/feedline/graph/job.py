"""A Job: what a step does with rows of its input, so that it can be done in several places at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from feedline.block import Block
from feedline.graph.calls import Collector
from feedline.graph.memory import Account
from feedline.graph.stream import State, Stream

if TYPE_CHECKING:
    from feedline.graph.context import Context


class Outcome(NamedTuple):
    block: Block | None  # the results, a row for each row that is done; None when none is
    error: Exception | None = None  # of the row after those

    @property
    def done(self) -> int:
        """How many rows of the input."""
        return 0 if self.block is None else self.block.rows


class Job(Protocol):
    """Picklable, and the same wherever it runs. Its results must not depend on which rows come together."""

    @property
    def step(self) -> str:
        """For messages."""
        ...

    @property
    def function(self) -> Callable[..., Any]:
        """The user's."""
        ...

    def run(self, rows: Block, first: int, late: Callable[[], bool]) -> tuple[Collector, Exception | None]:
        """The results of the rows, up to the first that fails, and its error. When it is `late`, of fewer.

        `first` is the number of the first row in the stream.
        """
        ...


class Done(NamedTuple):
    """What became of some rows."""

    rows: Block
    results: Block  # one for each


class Doing(Protocol):
    """A job that is done for the rows of a cursor, in several places at once."""

    waited: float  # seconds
    deaths: int  # of workers
    ahead: int  # bytes, the most that were held at a time
    account: Account  # of the rows and results that it holds

    @property
    def workers(self) -> int:
        """How many work at it."""
        ...

    def next(self) -> Done | None:
        """The results of the next rows, in their order; None at the end.

        A row that fails is raised in its place, and passed.
        """
        ...

    @property
    def after(self) -> State:
        """Of the cursor, after what was given or raised last."""
        ...

    def close(self) -> None: ...


class NotOpened(Exception):
    """Raised by a stream that is run elsewhere and could not be opened there: nothing comes after it."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


class Opener(Protocol):
    """What opens a stream wherever it is: a Node that can be pickled, say."""

    @property
    def function(self) -> Callable[..., Any]:
        """The user's."""
        ...

    def open(self, context: Context, state: State) -> Stream: ...

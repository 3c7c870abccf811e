"""A Node: one step of a pipeline. What to do, not the doing: frozen, picklable, with a fingerprint."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

from feedline.block import Block
from feedline.errors import UsageError
from feedline.graph.stream import Indices, State, Stream

if TYPE_CHECKING:
    from feedline.graph.context import Context


class Site(NamedTuple):
    """Where the user added a step, and what it is called there."""

    step: str
    file: str
    line: int
    name: str | None = None

    def __str__(self) -> str:
        return f"{self.step}{self.quoted}, added at {self.file}:{self.line}"

    @property
    def quoted(self) -> str:
        """The name, to be put after the step."""
        return f' "{self.name}"' if self.name else ""


class Source(NamedTuple):
    """A file that a step reads, and what tells it apart from the file that it was before."""

    path: str
    size: int
    stamp: str  # when it was written, or what its checksum is
    trouble: str = ""  # why that cannot be told

    @property
    def facts(self) -> str:
        return f"size {self.size}, {self.stamp}"


Peek: TypeAlias = Callable[["Node"], Any]
"""The spec of what a node gives, found by looking at its first elements."""


@dataclass(frozen=True, eq=False)
class Node(ABC):
    """One step. Subclasses are frozen dataclasses whose fields are the arguments, and say what is below.

    A field with `compare=False` does not count for the fingerprint.
    """

    # Does it give rows of its input on as they are, without looking at them? Then what is asked of its rows
    # is asked of the input's.
    passes_rows_on: ClassVar[bool] = False

    # Does it give blocks that are a user's arrays, where it is told that they will be copied?
    lends_rows: ClassVar[bool] = False

    # Can another process gather from it that has its arguments? Not if it holds data, or calls functions.
    is_portable: ClassVar[bool] = False

    # Does it call a user's function?
    runs_python: ClassVar[bool] = False

    # May rows be held that it made before anyone asked for them?
    works_ahead: ClassVar[bool] = False

    # Does it give the elements of datasets that a function makes? What these are, is told by the datasets.
    makes_datasets: ClassVar[bool] = False

    # May a function of the user's draw other numbers in it each time?
    may_draw: ClassVar[bool] = False

    # Does it give the elements of its input in every iteration, and are the states of its streams good for
    # those of the input, and the other way round? Then it does not count for the fingerprint.
    gives_its_input: ClassVar[bool] = False

    # Are positions in its input positions in it, too? Then a pipeline goes on from a state that was taken
    # without it. (Of others that give their input, states were saved that count them.)
    keeps_positions: ClassVar[bool] = False

    # Do functions after it draw the numbers that they would draw without it?
    keeps_draws: ClassVar[bool] = False

    # The fields that only say where files are: what counts of them is what `sources` tells.
    file_fields: ClassVar[frozenset[str]] = frozenset()

    site: Site | None = field(default=None, kw_only=True, compare=False, repr=False)

    @abstractmethod
    def open(self, context: Context, state: State) -> Stream:
        """Start at `state`, which a stream of this node gave, or at the beginning."""

    @abstractmethod
    def cardinality(self) -> int:
        """A count, INFINITE or UNKNOWN, as tf.data has it."""

    @abstractmethod
    def spec(self, peek: Peek | None) -> Any:
        """The spec of an element. What only the elements tell is asked from `peek`; without it, None."""

    def length(self) -> int | None:
        """The number of elements, if they can be had in any order by `gather`; else None."""
        return None

    def is_read_by_index(self) -> bool:
        """Do its streams read by `gather`, too? Then they are InOrder."""
        return False

    def gather(self, indices: Indices, context: Context) -> Block:
        """The elements at these indices, each from 0 to `length() - 1`."""
        raise UsageError(f"{self}: elements can only be had one after another.")

    def sources(self) -> Iterable[Source]:
        """The files that its elements come from, as they are now."""
        return ()

    def context_for_input(self, context: Context) -> Context:
        """The context in which the steps before it run."""
        return context

    def remark(self) -> str:
        """A sentence on how it runs, for `explain`."""
        return ""

    @property
    def has_made(self) -> bool:
        """If it `makes_datasets`: was one made, so that it is known what they are?"""
        return True

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _field_names(type(self))}  # without what is only cached

    @property
    def inputs(self) -> tuple[Node, ...]:
        found: list[Node] = []
        for name in _field_names(type(self)):
            value = getattr(self, name)
            found += [
                one for one in (value if isinstance(value, tuple) else (value,)) if isinstance(one, Node)
            ]
        return tuple(found)

    @property
    def name(self) -> str:
        """As the user wrote it, for messages and tables."""
        return self.site.step if self.site else type(self).__name__.lower()

    def __str__(self) -> str:
        return str(self.site) if self.site else self.name


@cache
def _field_names(kind: type[Node]) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind))


def tree(root: Node) -> list[Node]:
    """The node and all before it, each once, in an order that only their arrangement tells."""
    found: dict[Node, None] = {}
    waiting = [root]
    # Not by a function that calls itself: its closure would keep all nodes, and what they have open, until
    # the garbage collector comes.
    while waiting:
        node = waiting.pop()
        if node not in found:
            found[node] = None
            waiting += reversed(node.inputs)
    return list(found)


def goes_by_number(node: Node) -> bool:
    """Can its rows be told to another process by their numbers?"""
    return node.is_read_by_index() and all(one.is_portable for one in tree(node))

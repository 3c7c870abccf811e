"""window: consecutive elements as small datasets, which may overlap or leave gaps.

What is read is held in as few blocks as possible; windows are slices of them. The state says with which
element the next window begins, and from where the input must be read again to come to it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from feedline.block import Block
from feedline.column import Objects
from feedline.graph import Context, Indices, Node, Peek, State, Stream, cardinality
from feedline.graph.alike import known_spec
from feedline.graph.arguments import check_bool, check_int
from feedline.graph.memory import Account
from feedline.ops.nested import Numbered, Rows
from feedline.spec import DatasetSpec
from feedline.structure import flatten

_LEAF = flatten(0)[1]


@dataclass(frozen=True, eq=False)
class Window(Node):
    """The tree of an element with, for each leaf, a dataset of that leaf of `size` elements.

    Windows begin `shift` elements apart; the elements of one are `stride` apart.
    """

    input: Node
    size: int
    shift: int
    stride: int
    drop_remainder: bool
    wrap: Callable[[Node], Any] = field(compare=False)  # makes a Dataset of a node

    def __post_init__(self) -> None:
        for name in ("size", "shift", "stride"):
            check_int(self, name, 1, f"{name} must be 1 at least.")
        check_bool(self, "drop_remainder")

    @property
    def reach(self) -> int:
        """How many elements there are from the first of a window to its last."""
        return (self.size - 1) * self.stride + 1

    def _of(self, number: int) -> int:
        if self.drop_remainder:
            return 0 if number < self.reach else (number - self.reach) // self.shift + 1
        return -(-number // self.shift)

    def length(self) -> int | None:
        length = self.input.length()
        return length if length is None else self._of(length)

    def cardinality(self) -> int:
        of_input = self.input.cardinality()
        return cardinality.apply(of_input, self._of(of_input))

    def spec(self, peek: Peek | None) -> Any:
        of_input = self.input.spec(peek)
        if of_input is None:
            return None
        leaves, structure = flatten(of_input)
        return structure.unflatten([DatasetSpec(leaf) for leaf in leaves])

    def gather(self, indices: Indices, context: Context) -> Block:
        length = self.input.length()
        assert length is not None
        begins = (indices * self.shift).tolist()
        rows = [np.arange(begin, min(begin + self.reach, length), self.stride) for begin in begins]
        block = context.gather(self.input, np.concatenate(rows))
        ends = np.cumsum([len(one) for one in rows]).tolist()
        windows = [block.slice(end - len(one), end) for one, end in zip(rows, ends, strict=True)]
        return self.elements(windows, known_spec(self.input, block, context))

    def elements(self, windows: list[Block], known: Any) -> Block:
        """A row for each window. `known` is the spec of their elements, where it is known."""
        first = windows[0]
        specs = [None] * len(first.columns) if known is None else flatten(known)[0]
        columns = []
        for number, spec in enumerate(specs):
            leaves = (Block._trusted(_LEAF, [one.columns[number]], one.rows) for one in windows)
            columns.append(Objects([self.wrap(Rows.of(leaf, spec, self.site)) for leaf in leaves]))
        return Block._trusted(first.structure, columns, len(windows))

    def open(self, context: Context, state: State) -> Stream:
        return _WindowStream(self, context, state)


class _WindowStream(Stream):
    def __init__(self, node: Window, context: Context, state: State) -> None:
        self._node = node
        self._context = context
        self._rows_at_once = context.block_rows
        self._begin: int  # the number of the next window's first element
        self._begin, before = state or (0, None)
        self._rows = Numbered(context, node.input, before)
        self._known: Any = None  # the spec of the elements, if it is
        self._ended = False
        self._first = self._rows.number  # of the elements that are held
        self._held: list[Block | Exception] = []  # in the place of an element that failed, its error
        self._marks: deque[tuple[int, State]] = deque()  # numbers of elements, and the input's states there
        self._row_bytes = 0
        remedy = "Make the windows smaller, or raise the limit."
        self.account: Account = context.budget.account(node, "what the next windows hold", remedy)

    def next(self, limit: int) -> Block | None:
        node = self._node
        limit = min(limit, max(1, self._rows_at_once // node.shift))
        if self.account.is_limited:
            limit = min(limit, self._context.rows_of(self._row_bytes * node.shift))
        self._read(node.reach, node.reach + (limit - 1) * node.shift)
        windows: list[Block] = []
        while len(windows) < limit and self._is_there():
            try:
                windows.append(self._window())
            except Exception:
                if windows:
                    break  # it is raised when those in front of it were given
                self._begin += node.shift
                raise
            self._begin += node.shift
        if not windows:
            return None
        if self._known is None:
            self._known = known_spec(node.input, windows[0], self._context)
        return node.elements(windows, self._known)

    def _read(self, least: int, most: int) -> None:
        """Hold `least` elements from where the window begins on, and up to `most` if they come along."""
        while not self._ended and self._rows.number < self._begin + least:
            number, before = self._rows.number, self._rows.state()
            got: Block | Exception | None
            try:
                got = self._rows.take(min(self._begin + most - number, self._rows_at_once))
            except Exception as error:
                got = error
            if got is None:
                self._ended = True
            else:
                self._marks.append((number, before))
                self._held.append(got)
                self._drop()
                self._count()
        self._drop()
        self._join()
        self._count()

    def _count(self) -> None:
        blocks = [one for one in self._held if isinstance(one, Block)]
        held = sum(one.nbytes for one in blocks)
        if blocks:
            self._row_bytes = held // sum(one.rows for one in blocks)
        self.account.hold(held, held)

    def _join(self) -> None:
        """Make one block of those that follow one another, so that each window is a slice."""
        joined: list[Block | Exception] = []
        run: list[Block] = []
        for held in [*self._held, None]:
            if isinstance(held, Block):
                run.append(held)
                continue
            if run:
                joined.append(Block.concat(run))
                run = []
            if held is not None:
                joined.append(held)
        self._held = joined

    def _drop(self) -> None:
        """Let go of what is in front of the window."""
        while self._held and self._first < self._begin:
            held, drop = self._held[0], self._begin - self._first
            if isinstance(held, Block) and drop < held.rows:
                self._held[0] = held.slice(drop, held.rows)
            else:
                drop = _length(self._held.pop(0))
            self._first += drop
        while len(self._marks) > 1 and self._marks[1][0] <= self._begin:
            self._marks.popleft()

    def _is_there(self) -> bool:
        last = self._begin + (self._node.reach if not self._ended or self._node.drop_remainder else 1)
        return last <= self._rows.number

    def _window(self) -> Block:
        """The elements of the window, or the error of the first of them that failed."""
        stride = self._node.stride
        at, end = self._begin, min(self._begin + self._node.reach, self._rows.number)
        parts = []
        first = self._first
        for held in self._held:
            after = min(first + _length(held), end)
            if at < after:
                if isinstance(held, Exception):
                    raise held
                rows = np.arange(at - first, after - first, stride)
                parts.append(held.slice(at - first, after - first) if stride == 1 else held.take(rows))
                at += len(rows) * stride
            first += _length(held)
        return Block.concat(parts)

    def state(self) -> State:
        self._drop()
        if self._begin < self._rows.number and self._marks:
            return [self._begin, self._marks[0][1]]
        return [self._begin, self._rows.state()]

    def close(self) -> None:
        self._rows.close()
        self._held = []


def _length(held: Block | Exception) -> int:
    return held.rows if isinstance(held, Block) else 1

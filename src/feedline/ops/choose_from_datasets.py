"""choose_from_datasets: the next element of one dataset or another, as a dataset of numbers says.

Rows are not copied here: a block of the result only says which row of which block comes next.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from feedline.block import Block, Sources
from feedline.errors import UsageError, WrongKind
from feedline.graph import INFINITE, UNKNOWN, Context, Cursor, Indices, Node, Peek, State, Stream
from feedline.graph.alike import Alike, common_spec
from feedline.graph.arguments import check_bool
from feedline.picker import Picks
from feedline.spec import ArraySpec

_AHEAD = 4  # blocks' worth of rows that the datasets hold together
_NUMBER = ArraySpec((), np.dtype(np.int64))


@dataclass(frozen=True, eq=False)
class ChooseFromDatasets(Node):
    """A dataset that has ended is passed over, or ends everything with `stop_on_empty_dataset`."""

    parts: tuple[Node, ...]
    choices: Node
    stop_on_empty_dataset: bool

    passes_rows_on = True

    def __post_init__(self) -> None:
        if not self.parts:
            raise UsageError(f"{self.name}: give one dataset at least.")
        check_bool(self, "stop_on_empty_dataset")
        choices = self.choices.spec(None)
        if choices is not None:
            self.check_choices(choices)
        self.spec(None)

    def check_choices(self, spec: Any) -> None:
        if spec != _NUMBER:
            raise WrongKind(
                f"{self}: the choices must be numbers of the datasets, as int64, not {spec}.\n"
                "  To convert them:  choices.map(np.int64)"
            )

    def cardinality(self) -> int:
        parts = [part.cardinality() for part in self.parts]
        endless = INFINITE in parts and (not self.stop_on_empty_dataset or set(parts) == {INFINITE})
        return INFINITE if endless and self.choices.cardinality() == INFINITE else UNKNOWN

    def spec(self, peek: Peek | None) -> Any:
        return common_spec(self, self.parts, peek)

    def open(self, context: Context, state: State) -> Stream:
        return _ChooseStream(self, context, state)


class _Part:
    """A dataset, and a block of it at hand. How many of its rows were given, the stream tells."""

    def __init__(self, context: Context, node: Node, state: State) -> None:
        self._rows = Cursor(context, node, state)
        self.block: Block | None = None
        self._row = 0  # of the block, the first that the cursor has not passed

    def read(self, rows: int) -> Block | None:
        """The next block, when none is at hand; None at the end."""
        try:
            self.block = self._rows.peek(rows)
        except Exception:
            self._rows.held = True
            raise
        return self.block

    def raised(self) -> None:
        """The error of the element that failed was raised: now it is passed."""
        self._rows.release()

    def pass_all_but(self, left: int) -> None:
        """Of the block at hand, so many rows are left."""
        if self.block is not None:
            row = self.block.rows - left
            self._rows.advance(row - self._row)
            self._row = row
            if not left:
                self.block, self._row = None, 0

    @property
    def passed(self) -> int:
        return self._rows.passed

    def state(self) -> State:
        return self._rows.state()

    def close(self) -> None:
        self._rows.close()
        self.block = None


class _ChooseStream(Stream):
    def __init__(self, node: ChooseFromDatasets, context: Context, state: State) -> None:
        self._node = node
        self._context = context
        self._row_bytes = 0  # in the block that was read last
        count = len(node.parts)
        self._ahead = max(1, min(context.block_rows, _AHEAD * context.block_rows // count))
        inner = replace(
            context,
            block_rows=self._ahead,
            siblings=context.siblings * count,
            rows_are_picked=True,
        )
        # Of a part that has ended, the state is None.
        choices, states, done = state or (None, [(None, 0, 0)] * count, False)
        self._done: bool = done
        self._choices = _Part(context, node.choices, choices)
        self._numbers: Indices = np.empty(0, np.int64)  # of the choices at hand
        self._parts: dict[int, _Part] = {
            number: _Part(inner, part, one)
            for number, (part, one) in enumerate(zip(node.parts, states, strict=True))
            if one is not None
        }
        self._ready: Indices = np.zeros(count, np.int64)  # rows at hand of each part
        self._alive: np.ndarray[Any, np.dtype[np.bool_]] = np.array([one is not None for one in states])
        self._alike = Alike(node)
        self._checked: set[int] = set()  # parts
        self._failure: _Failure | None = None  # after the rows in front of it

    def next(self, limit: int) -> Block | None:
        out = _Rows(len(self._ready))
        while not self._done and self._failure is None:
            # Of what size rows are is known when there is one.
            most = min(limit, self._context.rows_to_pick(self._row_bytes)) if self._row_bytes else 1
            if out.rows >= most:
                break
            self._give(out, most - out.rows)
        if out.rows:
            return out.block()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            failure.part.raised()
            self._numbers = self._numbers[failure.choices :]
            raise failure.error
        return None

    def _give(self, out: _Rows, limit: int) -> None:
        """The rows of the choices that are at hand, `limit` of them at most."""
        if not len(self._numbers) and not self._read_choices(limit):
            return
        chosen = self._numbers[:limit]
        wrong = np.flatnonzero((chosen < 0) | (chosen >= len(self._ready)))
        if len(wrong):
            chosen = chosen[: wrong[0]]
        nth = _nth(chosen)
        while True:
            # As far as rows are at hand; a part that has ended is passed over.
            missing = (nth >= self._ready[chosen]) & self._alive[chosen]
            end = int(np.argmax(missing)) if missing.any() else len(chosen)
            if end:
                used = chosen[:end]
                counts = self._pick(out, used, nth[:end])
                chosen, nth = chosen[end:], nth[end:] - counts[chosen[end:]]
                self._numbers = self._numbers[end:]
            if not len(chosen):
                break
            number = int(chosen[0])
            out.known[number] = False
            if not self._read(number):
                return
        if len(wrong):
            self._failure = _Failure(self._refused(), self._choices, 1)

    def _pick(self, out: _Rows, used: Indices, nth: Indices) -> Indices:
        alive = self._alive[used]
        if not alive.all():
            used, nth = used[alive], nth[alive]
        counts = np.bincount(used, minlength=len(self._ready))
        for number in np.flatnonzero((counts > 0) & ~out.known).tolist():
            block = self._parts[number].block
            assert block is not None
            out.know(number, block, block.rows - int(self._ready[number]))
        out.add(used, nth, counts)
        self._ready -= counts
        return counts

    def _read_choices(self, rows: int) -> bool:
        choices = self._choices
        choices.pass_all_but(0)
        try:
            block = choices.read(rows)
            if block is None:
                self._done = True
                return False
            self._node.check_choices(block.spec)
        except Exception as error:
            choices.block = None  # what are no choices is never gone by
            self._failure = _Failure(error, choices, 0)
            return False
        numbers = block.columns[0]
        assert isinstance(numbers, np.ndarray)
        self._numbers = numbers
        return True

    def _refused(self) -> UsageError:
        choices = self._choices
        choices.pass_all_but(len(self._numbers))
        return UsageError(
            f"{self._node}: choice {choices.passed:,} (counted from 0) is {self._numbers[0]}; there are "
            f"{len(self._ready)} datasets, counted from 0."
        )

    def _read(self, number: int) -> bool:
        """Have rows of a part at hand, or see it end; False when that ends everything, or fails."""
        part = self._parts[number]
        part.pass_all_but(0)
        try:
            block = part.read(self._ahead)
            if block is not None and number not in self._checked:
                self._alike.check(block)
                self._checked.add(number)
        except Exception as error:
            part.block = None  # what does not fit is never gone by
            self._failure = _Failure(error, part, 1)
            return False
        if block is None:
            part.close()
            del self._parts[number]
            self._alive[number] = False
            self._done = self._node.stop_on_empty_dataset or not self._parts
            return not self._done
        self._ready[number] = block.rows
        self._row_bytes = max(1, block.nbytes // block.rows)
        return True

    def state(self) -> State:
        self._choices.pass_all_but(len(self._numbers))
        states = []
        for number, left in enumerate(self._ready.tolist()):
            part = self._parts.get(number)
            if part is not None:
                part.pass_all_but(left)
            states.append(None if part is None else part.state())
        return [self._choices.state(), states, self._done]

    def close(self) -> None:
        self._choices.close()
        for part in self._parts.values():
            part.close()


def _nth(numbers: Indices) -> Indices:
    """For each number, how many equal ones are in front of it.

    >>> _nth(np.array([2, 0, 2, 2, 0])).tolist()
    [0, 0, 1, 2, 1]
    """
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    begins = np.searchsorted(ordered, ordered)
    nth = np.empty(len(numbers), np.int64)
    nth[order] = np.arange(len(numbers)) - begins
    return nth


@dataclass(frozen=True)
class _Failure:
    error: Exception
    part: _Part
    choices: int  # that are passed by it


class _Rows:
    """The rows of a block that is being put together."""

    def __init__(self, parts: int) -> None:
        self.rows = 0
        self.known = np.zeros(parts, np.bool_)  # the parts of which a block is known
        self._next: Indices = np.zeros(parts, np.int64)  # of each part, the place of its next row
        self._sources = Sources()
        self._places: list[Picks] = []  # the rows of one block after another
        self._count = 0  # of places
        self._picked: list[Indices] = []  # places

    def know(self, number: int, block: Block, row: int) -> None:
        """From now on the rows of that part come from this block, the next from `row`."""
        self.known[number] = True
        self._next[number] = self._count + row
        self._places.append(self._sources.add(block))
        self._count += block.rows

    def add(self, parts: Indices, nth: Indices, counts: Indices) -> None:
        """For each of `parts`, the nth of its next rows; in all, `counts` of each part."""
        self._picked.append(self._next[parts] + nth)
        self._next += counts
        self.rows += len(parts)

    def block(self) -> Block:
        return self._sources.pick(np.concatenate(self._places)[np.concatenate(self._picked)])

"""interleave and flat_map: a dataset for each element, and their elements by turns, in tf.data's order.

The datasets at work are in the slots of a cycle. A turn gives up to `block_length` elements of one slot, then
comes the next. A slot whose dataset has ended is filled again when its turn comes round.

Rows are not copied here: a block of the result only says which row of which block comes next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from feedline.block import Block, Sources
from feedline.errors import UsageError
from feedline.graph import (
    INFINITE,
    UNKNOWN,
    Context,
    Cursor,
    DrawingNode,
    Indices,
    Node,
    Peek,
    State,
    Stream,
    tree,
)
from feedline.graph.alike import Alike
from feedline.graph.arguments import AUTOTUNE, check_function, check_int
from feedline.graph.chance import for_made
from feedline.graph.job import NotOpened
from feedline.ops.elsewhere import Elsewhere
from feedline.ops.from_generator import Shards
from feedline.ops.same_shards import SameShards
from feedline.picker import Picks
from feedline.spec import RaggedSpec, any_sizes
from feedline.structure import flatten

_AHEAD = 8  # blocks' worth of rows that the slots hold together
_FEWEST_BYTES = 64 << 10  # of each
_LONG = 0.002  # seconds that a function takes which does more than to name a dataset


@dataclass(frozen=True, eq=False)
class Interleave(DrawingNode):
    input: Node
    function: Callable[..., Any]  # of an element, gives a Dataset
    cycle_length: int
    block_length: int
    workers: int | None = field(default=None, compare=False)  # processes that run the datasets; None: none

    passes_rows_on = True
    makes_datasets = True

    def __post_init__(self) -> None:
        check_function(self, "function")
        check_int(self, "cycle_length", 1, "must be at least 1, or AUTOTUNE or None.")
        check_int(self, "block_length", 1, "1 at least.")

    def cardinality(self) -> int:
        # As tf.data: unknown without workers, although an infinite input never ends.
        in_parallel = self.workers is not None
        return INFINITE if in_parallel and self.input.cardinality() == INFINITE else UNKNOWN

    def spec(self, peek: Peek | None) -> Any:
        found = peek(self) if peek else None
        inner = _specs.get(self)
        if inner is None and peek and self in _makers:
            with suppress(Exception):  # it has no elements, or they fail: which is raised when they come
                inner = any_sizes(_makers[self].spec(peek))
        if found is None or inner is None:
            return inner if found is None else found
        # The elements tell more than one of the datasets can, except that they are meant to be ragged.
        (leaves, structure), (of_inner, _) = flatten(found), flatten(inner)
        pairs = zip(leaves, of_inner, strict=True)
        return structure.unflatten([other if isinstance(other, RaggedSpec) else one for one, other in pairs])

    def open(self, context: Context, state: State) -> Stream:
        return _InterleaveStream(self, context, state)

    def rows_made_of(self, element: Any, number: int, context: Context, state: State = None) -> Cursor:
        """The rows of the dataset that the function returns for an element."""
        seed = self.seed_in(context)
        elsewhere = Elsewhere(self.function, element, number, seed, self.workers, site=self.site)
        if context.places(self.workers) is not None:
            if self not in _worth_a_worker:
                began = context.services.clock()
                made = self._made(elsewhere)
                took = context.services.clock() - began
                _worth_a_worker[self] = took > _LONG or any(node.runs_python for node in tree(made))
            if self.is_worth_a_worker:
                return Cursor(context, elsewhere, state)
        made = self._made(elsewhere)
        return Cursor(for_made(context, made, seed, number), made, state)

    @property
    def is_worth_a_worker(self) -> bool:
        return _worth_a_worker.get(self, False)

    def _made(self, elsewhere: Elsewhere) -> Node:
        node = elsewhere.made()
        if _specs.get(self) is None:
            _specs[self] = any_sizes(node.spec(None))  # of the others, sizes may differ
            if _specs[self] is None and any(one.makes_datasets for one in tree(node)):
                _makers[self] = node
        return node

    @property
    def has_made(self) -> bool:
        return self in _specs


# What is known of the elements once a dataset was made: a batch asks for it, which runs after that.
_specs: WeakKeyDictionary[Interleave, Any] = WeakKeyDictionary()

# The last dataset, while it is not known what it gives, because it makes datasets itself.
_makers: WeakKeyDictionary[Interleave, Node] = WeakKeyDictionary()

# Found out with the first dataset: files that the native core reads are read faster here.
_worth_a_worker: WeakKeyDictionary[Interleave, bool] = WeakKeyDictionary()


class _Slot:
    """A dataset at work. The cursor passes its rows only when the state is asked for, or a block ends."""

    def __init__(self, rows: Cursor, made_at: State) -> None:
        self.rows = rows
        self.is_new = True  # not yet compared with the others
        self.made_at = made_at  # the input's state before the element that the dataset was made of
        self.block: Block | None = None
        self.row = 0  # of the block, the next
        self._passed = 0  # rows of the block that the cursor has passed

    @property
    def at_hand(self) -> int:
        """How many rows can be had without reading."""
        return 0 if self.block is None else self.block.rows - self.row

    def read(self, rows: int) -> None:
        """Have rows at hand; none will be when the dataset has ended."""
        self._settle()
        self.block, self.row, self._passed = None, 0, 0
        self.block = self.rows.peek(rows)

    def _settle(self) -> None:
        self.rows.advance(self.row - self._passed)
        self._passed = self.row

    def state(self) -> State:
        self._settle()
        return [self.made_at, self.rows.state()]

    def close(self) -> None:
        self.rows.close()


class _InterleaveStream(Stream):
    def __init__(self, node: Interleave, context: Context, state: State) -> None:
        self._node = node
        self._context = context
        fewest = 1 if context.budget.is_limited else _FEWEST_BYTES
        self._inner = replace(
            context,
            block_rows=max(1, min(context.block_rows, _AHEAD * context.block_rows // node.cycle_length)),
            block_bytes=max(fewest, _AHEAD * context.block_bytes // node.cycle_length),
            siblings=context.siblings * node.cycle_length,
            rows_are_picked=context.rows_are_picked or node.cycle_length > 1,
        )
        self._turn: int
        self._in_turn: int  # rows given in this turn
        self._input_ended: bool
        at_input, self._turn, self._in_turn, self._input_ended, slots = state or (None, 0, 0, False, {})
        self._coming: deque[_Slot] = deque()  # datasets that workers run before their turn comes
        self._coming_failure: _Failure | None = None  # after those
        self._input = Cursor(context, node.input, at_input)
        self._alike = Alike(node)
        self._slots: dict[int, _Slot] = {int(at): self._reopened(*saved) for at, saved in slots.items()}
        self._row_bytes = 0  # in the block that was read last
        self._slow_turns = 0  # so many before whole rounds are tried again
        self._failure: _Failure | None = None  # to be raised after the rows in front of it
        self._same_shards: SameShards | None = None
        if isinstance(node.function, Shards) and state is None:
            self._same_shards = SameShards(node.function.generator, node.function.count)
        self._has_read = False  # since the clock was looked at

    def next(self, limit: int) -> Block | None:
        block = self._next(limit)
        if self._same_shards is not None:
            if not self._same_shards.is_done:
                self._same_shards.see(block)
            if self._same_shards.is_done:
                self._same_shards = None
        return block

    def _next(self, limit: int) -> Block | None:
        out = _Rows()
        late = self._context.services.deadline()
        while self._failure is None:
            # A slow function must not keep the first rows back until the block is full.
            if self._has_read and out.rows and late():
                break
            self._has_read = False
            most = min(limit, self._context.rows_to_pick(self._row_bytes))
            if out.rows >= most or not (self._give_rounds(out, most) or self._give_turn(out, most)):
                break
        if out.rows:
            return out.block()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            failure.leave()
            self._same_shards = None  # the turns are not in step any more
            raise failure.error
        return None

    def _give_rounds(self, out: _Rows, limit: int) -> bool:
        """Whole rounds of the cycle at once, of the rows at hand; False when there is none.

        Nothing is read here: what fails when it is read must fail in its turn.
        """
        node, slots = self._node, self._slots
        if self._slow_turns or self._in_turn or not slots:
            return False
        if not self._ended and len(slots) < node.cycle_length:
            return False
        length = node.block_length
        most = (limit - out.rows) // len(slots)
        if most < length:
            return False
        order = [*range(self._turn, node.cycle_length), *range(self._turn)]
        active = [slots[at] for at in order if at in slots]
        rounds = min(most, *(slot.at_hand for slot in active)) // length
        if rounds == 0:
            self._slow_turns = len(active)
            return False
        out.add_rounds(active, rounds, length)
        return True

    def _give_turn(self, out: _Rows, limit: int) -> bool:
        """The rest of one turn, or a step towards the next; False at the end of it all, and on a failure."""
        slot = self._slots.get(self._turn)
        if slot is None:
            if not self._ended:
                return self._fill_slot()
            if not self._slots:
                return False
            self._pass_turn()
            return True
        if not slot.at_hand and not self._read(slot):
            return False
        if not slot.at_hand:
            self._drop_slot()
            return True
        rows = min(slot.at_hand, self._node.block_length - self._in_turn, limit - out.rows)
        out.add(slot, rows)
        self._in_turn += rows
        if self._in_turn == self._node.block_length:
            self._pass_turn()
        return True

    def _read(self, slot: _Slot) -> bool:
        self._has_read = True
        try:
            slot.read(self._inner.block_rows)
        except NotOpened as failed:
            # As a function that fails here: the next dataset takes the place, in the same turn.
            self._failure = _Failure(failed.error, self._empty_slot)
            return False
        except Exception as error:
            slot.rows.held = True
            self._failure = _Failure(error, slot.rows.release)
            return False
        if slot.block is not None:
            self._row_bytes = slot.block.nbytes // slot.block.rows
        if slot.is_new and slot.block is not None:
            try:
                self._alike.check(slot.block)
            except UsageError as error:
                self._failure = _Failure(error, self._drop_slot)
                return False
            slot.is_new = False
        return True

    def _drop_slot(self) -> None:
        self._empty_slot()
        self._pass_turn()

    def _empty_slot(self) -> None:
        self._slots.pop(self._turn).close()

    def _pass_turn(self) -> None:
        self._turn = (self._turn + 1) % self._node.cycle_length
        self._in_turn = 0
        self._slow_turns = max(0, self._slow_turns - 1)

    @property
    def _ended(self) -> bool:
        """Is there no dataset any more for a slot?"""
        return self._input_ended and not self._coming

    def _fill_slot(self) -> bool:
        """Put the next dataset to work, if there is one; False on a failure."""
        if not self._coming:
            self._failure, self._coming_failure = self._coming_failure or self._make_next(), None
        if self._failure is None and self._coming:
            self._slots[self._turn] = self._coming.popleft()
            while len(self._coming) < self._ahead and not (self._input_ended or self._coming_failure):
                self._coming_failure = self._make_next()
        return self._failure is None

    def _make_next(self) -> _Failure | None:
        """Make a dataset of the next element of the input, if there is one."""
        made_at = self._input.state()
        self._has_read = True
        try:
            block = self._input.peek(1)
        except Exception as error:
            self._input.held = True
            return _Failure(error, self._input.release)
        if block is None:
            self._input_ended = True
            return None
        try:
            rows = self._node.rows_made_of(block.row(0), self._input.passed, self._inner)
            self._coming.append(_Slot(rows, made_at))
        except Exception as error:
            return _Failure(error, partial(self._input.advance, 1))
        self._input.advance(1)
        return None

    @property
    def _ahead(self) -> int:
        """How many datasets are begun before their turn, so that every worker has one."""
        places = self._context.places(self._node.workers)
        if places is None or not self._node.is_worth_a_worker:
            return 0
        workers = self._context.services.cores if places == AUTOTUNE else places
        return max(0, workers + 1 - self._node.cycle_length)

    def _reopened(self, made_at: State, inner: State) -> _Slot:
        source = Cursor(self._context, self._node.input, made_at)
        try:
            block = source.take(1)
        finally:
            source.close()
        if block is None:
            raise UsageError(f"{self._node}: the input has fewer elements than when the state was taken.")
        return _Slot(self._node.rows_made_of(block.row(0), source.passed - 1, self._inner, inner), made_at)

    def state(self) -> State:
        slots = {str(at): slot.state() for at, slot in self._slots.items()}
        at_input = self._coming[0].made_at if self._coming else self._input.state()
        return [at_input, self._turn, self._in_turn, self._ended, slots]

    def close(self) -> None:
        self._input.close()
        for slot in (*self._slots.values(), *self._coming):
            slot.close()
        self._slots = {}
        self._coming.clear()


class _Failure(NamedTuple):
    """An error, and what passes the element that failed. Until then the state is that in front of it."""

    error: Exception
    leave: Callable[[], None]


class _Rows:
    """The rows of a block that is being put together: stretches of the rows of all slots, end to end."""

    def __init__(self) -> None:
        self.rows = 0
        self._only: Block | None = None  # the rows, when all lie in one stretch
        self._sources = Sources()
        self._rows: list[Picks] = []  # those of the slots, end to end
        self._begins: dict[int, int] = {}  # where those of a block begin, by its id:
        self._blocks: list[Block] = []  # so they must stay
        self._end = 0
        self._parts: list[Indices] = []  # which of them are picked
        self._stretches: list[tuple[int, int]] = []  # those that come after the parts: begin and end

    def add(self, slot: _Slot, rows: int) -> None:
        assert slot.block is not None
        begin = self._begin(slot)
        self._only = None if self.rows else slot.block.slice(slot.row, slot.row + rows)
        self._stretches.append((begin, begin + rows))
        self.rows += rows
        slot.row += rows

    def add_rounds(self, slots: list[_Slot], rounds: int, length: int) -> None:
        if len(slots) == 1:
            return self.add(slots[0], rounds * length)
        self._join_stretches()
        begins = np.array([self._begin(slot) for slot in slots])
        in_turn = np.arange(rounds * length).reshape(rounds, 1, length)
        self._parts.append((begins[:, None] + in_turn).reshape(-1))
        self._only = None
        self.rows += len(slots) * rounds * length
        for slot in slots:
            slot.row += rounds * length

    def _begin(self, slot: _Slot) -> int:
        """Where the rows that the slot has at hand begin among all."""
        block = slot.block
        assert block is not None
        begin = self._begins.get(id(block))
        if begin is None:
            self._rows.append(self._sources.add(block))
            begin = self._begins[id(block)] = self._end
            self._blocks.append(block)
            self._end += block.rows
        return begin + slot.row

    def _join_stretches(self) -> None:
        if self._stretches:
            begins, ends = np.array(self._stretches).T
            lengths = ends - begins
            shifts = begins - np.concatenate([[0], np.cumsum(lengths)[:-1]])
            self._parts.append(np.arange(lengths.sum()) + np.repeat(shifts, lengths))
            self._stretches = []

    def block(self) -> Block:
        if self._only is not None:
            return self._only
        self._join_stretches()
        return self._sources.pick(np.concatenate(self._rows)[np.concatenate(self._parts)])

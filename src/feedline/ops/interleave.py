"""interleave and flat_map: a dataset for each element, and their elements by turns, in tf.data's order.

The datasets at work are in the slots of a cycle. A turn gives up to `block_length` elements of one slot, then
comes the next. A slot whose dataset has ended is filled again when its turn comes round.

Rows are not copied here: a block of the result only says which row of which block comes next.

Datasets that can be read whole (`Node.whole_key`), as small files can, are made some at a time, read together
in the background, and share a block. The function is then called before its turn, but what fails still fails
in its turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from feedline.block import Block
from feedline.errors import UsageError
from feedline.graph import (
    INFINITE,
    UNKNOWN,
    Context,
    Cursor,
    DrawingNode,
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
from feedline.ops.elsewhere import Elsewhere, made_by
from feedline.ops.from_generator import Shards
from feedline.ops.same_shards import SameShards
from feedline.ops.slots import AnySlot, Coming, Group, PickedRows, Slot, WholeSlot
from feedline.spec import RaggedSpec, any_sizes
from feedline.structure import flatten

_AHEAD = 8  # blocks' worth of rows that the slots hold together
_FEWEST_BYTES = 64 << 10  # of each
_MOST_TOGETHER = 64  # datasets that are read together
_MOST_BY_TURNS = 16  # of which one stream reads the rows in their order
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

    def made_of(self, element: Any, number: int, context: Context) -> Node:
        """The dataset that the function returns for an element, made by a worker if that is worth it."""
        if context.places(self.workers) is not None:
            if self not in _worth_a_worker:
                began = context.services.clock()
                made = self._made(element, number)
                took = context.services.clock() - began
                _worth_a_worker[self] = took > _LONG or any(node.runs_python for node in tree(made))
            if self.is_worth_a_worker:
                seed = self.seed_in(context)
                return Elsewhere(self.function, element, number, seed, self.workers, site=self.site)
        return self._made(element, number)

    def rows_of(self, made: Node, number: int, context: Context, state: State = None) -> Cursor:
        """The rows of a dataset that was made."""
        if not isinstance(made, Elsewhere):
            context = for_made(context, made, self.seed_in(context), number)
        return Cursor(context, made, state)

    @property
    def is_worth_a_worker(self) -> bool:
        return _worth_a_worker.get(self, False)

    def _made(self, element: Any, number: int) -> Node:
        node = made_by(self.function, element, number, self)
        if _specs.get(self) is None:
            _specs[self] = any_sizes(node.spec(None))  # of the others, sizes may differ
            if _specs[self] is None and any(one.makes_datasets for one in tree(node)):
                _makers[self] = node
        return node

    @property
    def has_made(self) -> bool:
        return self in _specs

    @property
    def is_known(self) -> bool:
        """Is it known what the datasets give?"""
        return _specs.get(self) is not None


# What is known of the elements once a dataset was made: a batch asks for it, which runs after that.
_specs: WeakKeyDictionary[Interleave, Any] = WeakKeyDictionary()

# The last dataset, while it is not known what it gives, because it makes datasets itself.
_makers: WeakKeyDictionary[Interleave, Node] = WeakKeyDictionary()

# Found out with the first dataset: files that the native core reads are read faster here.
_worth_a_worker: WeakKeyDictionary[Interleave, bool] = WeakKeyDictionary()


class _Failure(NamedTuple):
    """An error, and what passes the element that failed. Until then the state is that in front of it."""

    error: Exception
    leave: Callable[[], None]


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
        self._coming: deque[Coming] = deque()
        self._coming_failure: _Failure | None = None  # after those
        self._input = Cursor(context, node.input, at_input)
        self._alike = Alike(node)
        self._alike_key: Hashable | None = None  # of the group that was compared last
        self._slots: dict[int, AnySlot] = {int(at): self._reopened(*saved) for at, saved in slots.items()}
        self._row_bytes = 0  # in the block that was read last
        self._slow_turns = 0  # so many before whole rounds are tried again
        self._failure: _Failure | None = None  # to be raised after the rows in front of it
        self._same_shards: SameShards | None = None
        if isinstance(node.function, Shards) and state is None:
            self._same_shards = SameShards(node.function.generator, node.function.count)
        self._has_read = False  # since the clock was looked at
        # Datasets that are made at once, to be read together. Not of an input that may wait for its elements.
        self._together = 1
        self._is_quick = True  # the function
        self._is_plain = False  # nothing is to be found out by the next dataset
        is_at_hand = not any(one.runs_python for one in tree(node.input))
        # What is read together is not counted, so each is read alone under a memory limit.
        self._may_group = is_at_hand and not context.budget.is_limited
        self._by_turns: Stream | None = None  # gives the rows of all slots in their order
        self._may_turn = self._can_turn  # try it

    def next(self, limit: int) -> Block | None:
        block = self._next(limit)
        if self._same_shards is not None:
            if not self._same_shards.is_done:
                self._same_shards.see(block)
            if self._same_shards.is_done:
                self._same_shards = None
        return block

    def _next(self, limit: int) -> Block | None:
        out = PickedRows()
        late = self._context.services.deadline()
        most = min(limit, self._context.rows_to_pick(self._row_bytes))
        while self._failure is None:
            if self._has_read:
                # A slow function must not keep the first rows back until the block is full.
                if out.rows and late():
                    break
                self._has_read = False
                most = min(limit, self._context.rows_to_pick(self._row_bytes))
            if self._by_turns is not None or (self._may_turn and self._begin_turns()):
                if out.rows:
                    break
                if (block := self._next_by_turns()) is not None:
                    return block
                continue
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

    @property
    def _can_turn(self) -> bool:
        return self._may_group and 2 <= self._node.cycle_length <= _MOST_BY_TURNS

    @property
    def _order(self) -> list[int]:
        """The slots from this turn on."""
        return [*range(self._turn, self._node.cycle_length), *range(self._turn)]

    def _begin_turns(self) -> bool:
        """Have the rows of all slots read in their order by one stream, if that can be; else False."""
        if self._in_turn:
            return False
        self._may_turn = False
        self._fill_ahead()
        if not self._ended and len(self._slots) < self._node.cycle_length:
            return False
        slots = [slot for at in self._order if isinstance(slot := self._slots.get(at), Slot)]
        keys = {slot.made.whole_key() for slot in slots}
        if not 1 < len(slots) == len(self._slots) or len(keys) != 1 or None in keys:
            return False
        made = [slot.made for slot in slots]
        states = [slot.state()[1] for slot in slots]
        stream = made[0].open_by_turns(made, states, self._node.block_length, self._context)
        if stream is None:
            return False
        for slot in slots:
            slot.close()
        self._by_turns = self._context.services.measured(made[0], stream, self._context)
        return True

    def _fill_ahead(self) -> None:
        """Fill the free slots before their turns, unless they are read whole, or fail."""
        free = [at for at in self._order if at not in self._slots]
        while free and len(self._coming) < len(free) and self._is_quick:
            if self._input_ended or self._coming_failure:
                break
            self._together = max(self._together, len(free) - len(self._coming))
            self._coming_failure = self._make_next()
        if self._coming_failure or (len(self._coming) < len(free) and not self._input_ended):
            return
        for coming in islice(self._coming, len(free)):
            if coming.group is None or coming.group.wholes(self._context).rows[coming.in_group] is not None:
                return
        for at in free[: len(self._coming)]:
            self._slots[at] = self._opened(self._coming[0])
            self._coming.popleft()

    def _next_by_turns(self) -> Block | None:
        """The next rows; None when each slot is to be read by itself."""
        assert self._by_turns is not None
        before = self._by_turns.state()
        block = self._by_turns.next(self._context.block_rows)
        order = [at for at in self._order if at in self._slots]
        if block is None or not self._is_of_kind(order[0], block):
            self._end_turns(order, before)
            return None
        self._row_bytes = block.nbytes // block.rows
        turns, self._in_turn = divmod(block.rows, self._node.block_length)
        self._turn = order[turns % len(order)]
        if self._in_turn or turns % len(order):
            after = self._by_turns.state()
            self._end_turns(order, after)
        return block

    def _is_of_kind(self, at: int, block: Block) -> bool:
        slot = self._slots[at]
        assert isinstance(slot, Slot)
        key = slot.made.whole_key()
        if key != self._alike_key:
            try:
                self._alike.check(block)
            except UsageError:
                return False  # raised for the slot that does not fit
            self._alike_key = key
        return True

    def _end_turns(self, order: list[int], states: list[State]) -> None:
        """Read each slot by itself from its state on; `order` is that of the states."""
        assert self._by_turns is not None
        self._by_turns.close()
        self._by_turns = None
        for at, state in zip(order, states, strict=True):
            slot = self._slots[at]
            assert isinstance(slot, Slot)
            rows = self._node.rows_of(slot.made, slot.number, self._inner, state)
            self._slots[at] = Slot(rows, slot.made_at, slot.made, slot.number)

    def _give_rounds(self, out: PickedRows, limit: int) -> bool:
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
        active = [slots[at] for at in self._order if at in slots]
        rounds = min(most, *(slot.at_hand for slot in active)) // length
        if rounds == 0:
            self._slow_turns = len(active)
            return False
        out.add_rounds(active, rounds, length)
        return True

    def _give_turn(self, out: PickedRows, limit: int) -> bool:
        """The rest of one turn, or a step towards the next; False at the end of it all, and on a failure."""
        slot = self._slots.get(self._turn)
        if slot is None:
            if self._ended:
                if not self._slots:
                    return False
                self._pass_turn()
                return True
            if not self._fill_slot():
                return False
            slot = self._slots.get(self._turn)
            if not isinstance(slot, WholeSlot):
                return True  # at the end of the input, or perhaps all are to be read by turns now
        if not slot.at_hand and isinstance(slot, Slot) and not self._read(slot):
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

    def _read(self, slot: Slot) -> bool:
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
        if slot.block is None:
            return True
        self._row_bytes = slot.block.nbytes // slot.block.rows
        if slot.is_new and not self._is_alike(slot.block):
            return False
        slot.is_new = False
        return True

    def _is_alike(self, block: Block) -> bool:
        """Are the rows of this turn's slot of the kind of the others'?"""
        try:
            self._alike.check(block)
        except UsageError as error:
            self._failure = _Failure(error, self._drop_slot)
            return False
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
        if not self._coming and self._coming_failure is None:
            self._coming_failure = self._make_next()
        if not self._coming:
            self._failure, self._coming_failure = self._coming_failure, None
            return self._failure is None
        coming = self._coming[0]
        try:
            slot = self._opened(coming)
        except Exception as error:
            self._failure = _Failure(error, self._pass_coming)
            return False
        self._coming.popleft()
        self._slots[self._turn] = slot
        self._may_turn = self._can_turn and isinstance(slot, Slot)
        if coming.group is not None and coming.group.key != self._alike_key and slot.at_hand:
            assert slot.block is not None
            if not self._is_alike(slot.block):
                return False
            self._alike_key = coming.group.key
        while len(self._coming) < self._ahead and not (self._input_ended or self._coming_failure):
            self._coming_failure = self._make_next()
        return True

    def _pass_coming(self) -> None:
        self._coming.popleft()

    def _opened(self, coming: Coming) -> AnySlot:
        group = coming.group
        if group is not None:
            block, places = group.wholes(self._context)
            if coming.in_group == 0:
                self._has_read = True
                if block is not None:
                    self._row_bytes = block.nbytes // block.rows
                grows = self._is_quick and any(places)
                self._together = min(2 * self._together, _MOST_TOGETHER) if grows else 1
            place = places[coming.in_group]
            if place is not None:
                return WholeSlot(block, *place, coming.made_at)
        rows = coming.rows or self._node.rows_of(coming.made, coming.number, self._inner)
        return Slot(rows, coming.made_at, coming.made, coming.number)

    def _make_next(self) -> _Failure | None:
        """Make a dataset of the next element of the input, if there is one; or some, to be read together."""
        self._has_read = True
        late = self._context.services.deadline()
        try:
            block = self._input.peek(self._together)
        except Exception as error:
            self._input.held = True
            return _Failure(error, self._input.release)
        if block is None:
            self._input_ended = True
            return None
        groups: list[Group] = []
        failure: _Failure | None = None
        for row, element in enumerate(block):
            if row and late():
                break
            try:
                self._make(element, groups)
            except Exception as error:
                failure = _Failure(error, partial(self._input.advance, 1))
                break
            self._input.advance(1)
        # A slow function is not called before its turn: it would keep back the rows that are there.
        self._is_quick = not late()
        if not self._is_quick:
            self._together = 1
        for group in groups:
            group.begin(self._inner)
        return failure

    def _make(self, element: Any, groups: list[Group]) -> None:
        node, made_at, number = self._node, self._input.state(), self._input.passed
        if self._is_plain:
            made = made_by(node.function, element, number, node)
        else:
            made = node.made_of(element, number, self._inner)
            self._is_plain = node.is_known and not isinstance(made, Elsewhere)
        key = made.whole_key() if self._may_group else None
        if key is None:
            rows = node.rows_of(made, number, self._inner)
            self._coming.append(Coming(made_at, number, made, rows, None, 0))
            return
        if groups and groups[-1].key == key:
            groups[-1].nodes.append(made)
        else:
            groups.append(Group(made, key))
        self._coming.append(Coming(made_at, number, made, None, groups[-1], len(groups[-1].nodes) - 1))

    @property
    def _ahead(self) -> int:
        """How many datasets are begun before their turn: enough for every worker, or for a group."""
        if self._together > 1:
            return self._together
        places = self._context.places(self._node.workers)
        if places is None or not self._node.is_worth_a_worker:
            return 0
        workers = self._context.services.cores if places == AUTOTUNE else places
        return max(0, workers + 1 - self._node.cycle_length)

    def _reopened(self, made_at: State, inner: State) -> Slot:
        source = Cursor(self._context, self._node.input, made_at)
        try:
            block = source.take(1)
        finally:
            source.close()
        if block is None:
            raise UsageError(f"{self._node}: the input has fewer elements than when the state was taken.")
        number = source.passed - 1
        made = self._node.made_of(block.row(0), number, self._inner)
        return Slot(self._node.rows_of(made, number, self._inner, inner), made_at, made, number)

    def state(self) -> State:
        slots = {str(at): slot.state() for at, slot in self._slots.items()}
        if self._by_turns is not None:
            order = [at for at in self._order if at in self._slots]
            for at, state in zip(order, self._by_turns.state(), strict=True):
                slots[str(at)] = [self._slots[at].made_at, state]
        at_input = self._coming[0].made_at if self._coming else self._input.state()
        return [at_input, self._turn, self._in_turn, self._ended, slots]

    def close(self) -> None:
        self._input.close()
        if self._by_turns is not None:
            self._by_turns.close()
        for slot in self._slots.values():
            slot.close()
        for coming in self._coming:
            if coming.rows is not None:
                coming.rows.close()
        self._slots = {}
        self._coming.clear()

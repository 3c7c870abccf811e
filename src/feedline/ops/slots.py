"""The slots of interleave: datasets at work, those whose turn has not come, and rows picked out of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NamedTuple, TypeAlias

import numpy as np

from feedline.block import Block, Sources
from feedline.graph import Context, Cursor, Indices, Node, State, Wholes
from feedline.picker import Picks


class Slot:
    """A dataset at work. The cursor passes its rows only when the state is asked for, or a block ends."""

    def __init__(self, rows: Cursor, made_at: State, made: Node, number: int) -> None:
        self.rows = rows
        self.made = made
        self.number = number  # of the element that it was made of
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


class WholeSlot:
    """A dataset whose rows are all at hand, in a block that it shares with others."""

    def __init__(self, block: Block | None, begin: int, end: int, made_at: State) -> None:
        self.block = block
        self.row = self._begin = begin
        self._end = end
        self.made_at = made_at

    @property
    def at_hand(self) -> int:
        return self._end - self.row

    def state(self) -> State:
        passed = self.row - self._begin
        return [self.made_at, [None, passed, passed]]  # a Cursor's: from the beginning, with these dropped

    def close(self) -> None:
        pass


AnySlot: TypeAlias = Slot | WholeSlot


class Group:
    """Datasets that are read together, before their turn."""

    def __init__(self, first: Node, key: Hashable) -> None:
        self.nodes = [first]
        self.key = key
        self._wait: Callable[[], Wholes] | None = None
        self._wholes: Wholes | None = None

    def begin(self, context: Context) -> None:
        self._wait = self.nodes[0].begin_whole(self.nodes, context)

    def wholes(self, context: Context) -> Wholes:
        if self._wholes is None:
            assert self._wait is not None
            self._wholes = context.services.read_whole(self.nodes[0], self._wait)
            self._wait, self.nodes = None, []
        return self._wholes


class Coming(NamedTuple):
    """A dataset whose turn has not come."""

    made_at: State
    number: int  # of the element that it was made of
    made: Node
    rows: Cursor | None  # a worker has begun with it
    group: Group | None
    in_group: int


class PickedRows:
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

    def add(self, slot: AnySlot, rows: int) -> None:
        assert slot.block is not None
        begin = self._begin(slot)
        self._only = None if self.rows else slot.block.slice(slot.row, slot.row + rows)
        self._stretches.append((begin, begin + rows))
        self.rows += rows
        slot.row += rows

    def add_rounds(self, slots: list[AnySlot], rounds: int, length: int) -> None:
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

    def _begin(self, slot: AnySlot) -> int:
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

"""The elements of a shared entry, one after another or by their numbers, read or computed as they are needed.

Where there is no store any more, a stream goes on with the elements of the input: it goes alone.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from itertools import accumulate

import numpy as np

from feedline.block import Block, Sources
from feedline.cache.dividing import DividedFiller
from feedline.cache.filling import Alone, IndexedFiller, Items, StreamedFiller, elements
from feedline.cache.part import Part
from feedline.cache.plan import Plan
from feedline.cache.shared import SharedEntry
from feedline.graph import Cursor, Indices, State, Stream
from feedline.graph.alike import Alike
from feedline.picker import picks_of


class SharedStream(Stream):
    """The state is the number of elements that were given or raised, and the seeds of the random steps."""

    def __init__(self, shared: SharedEntry, step: str, state: State) -> None:
        self._shared = shared
        self._at: int
        self._seeds: list[int] | None
        self._at, self._seeds = state or (0, None)
        self._items: deque[Block | Exception] = deque()
        self._ended = False
        self._own: Cursor | None = None  # when it goes alone
        self._alike = Alike(step)

    def next(self, limit: int) -> Block | None:
        while True:
            if self._items:
                return self._give(self._items.popleft())
            if self._own is not None:
                return self._next_own(self._own, limit)
            if self._ended:
                return None
            with self._shared.surviving():
                self._load()
                continue
            self._go_alone()

    def _give(self, item: Block | Exception) -> Block:
        if isinstance(item, Exception):
            self._at += 1
            raise item
        self._at += item.rows
        self._alike.check(item)
        return item.frozen()

    def _next_own(self, own: Cursor, limit: int) -> Block | None:
        try:
            block = own.take(limit)
        except Exception as error:
            return self._give(error)
        return None if block is None else self._give(block)

    @abstractmethod
    def _load(self) -> None:
        """Add the items of the next part, or end. NoRoom and Unavailable when the store fails."""

    @abstractmethod
    def _go_alone(self) -> None:
        """Set `_own`, in front of the next element."""

    def _is_mine(self, plan: Plan) -> bool:
        """Has the entry the elements that this iteration began with? Not if it was made anew since."""
        if self._seeds is None:
            self._seeds = list(plan.seeds)
        return self._seeds == list(plan.seeds)

    def _add(self, found: Part | Items, first: int) -> None:
        """Items, of which the first is an element with that number; those before the next are left out."""
        for item in [found.block] if isinstance(found, Part) else found:
            rows = 1 if isinstance(item, Exception) else item.rows
            passed = min(max(0, self._at - first), rows)
            if passed < rows:
                self._items.append(item if isinstance(item, Exception) else item.slice(passed, rows))
            first += rows

    def state(self) -> State:
        return [self._at, self._seeds]

    def close(self) -> None:
        self._items.clear()
        if self._own is not None:
            self._own.close()


class IndexedStream(SharedStream):
    def __init__(self, shared: SharedEntry, filler: IndexedFiller, step: str, state: State) -> None:
        super().__init__(shared, step, state)
        self._filler = filler

    def _load(self) -> None:
        plan = self._filler.plan()
        if not self._is_mine(plan):
            return self._go_alone()
        if self._at >= self._filler.length:
            self._ended = True
            with self._shared.surviving():  # the rows were all given: that it is not told matters little
                self._filler.finish(plan)
            return
        assert plan.part_rows is not None
        number = self._at // plan.part_rows
        self._add(self._filler.part(plan, number), number * plan.part_rows)

    def _go_alone(self) -> None:
        self._seeds = self._seeds or self._filler.seeds
        self._own = self._filler.cursor(self._seeds, self._at)


def gather(filler: IndexedFiller, indices: Indices) -> Block | None:
    """The elements with these numbers, by whole parts; None when one of the parts cannot be shared."""
    plan = filler.plan()
    assert plan.part_rows is not None
    numbers, which = np.unique(indices // plan.part_rows, return_inverse=True)
    sources = Sources()
    for number in numbers.tolist():
        part = filler.part(plan, number)
        if not isinstance(part, Part):
            return None
        sources.add(part.block)
    return sources.pick(picks_of(which, indices - numbers[which] * plan.part_rows))


class StreamedStream(SharedStream):
    def __init__(
        self, shared: SharedEntry, filler: StreamedFiller | DividedFiller, step: str, state: State
    ) -> None:
        super().__init__(shared, step, state)
        self._filler = filler
        self._number = 0  # of the next part
        self._first = 0  # its first element
        self._previous: Part | None = None  # the part before it
        self._rows: list[int] = []  # of the parts so far

    def _load(self) -> None:
        try:
            plan = self._filler.plan()
            if not self._is_mine(plan):
                return self._go_alone()
            if self._number == 0:
                self._jump(plan)
            part = self._filler.part(plan, self._number, self._first, self._previous)
        except Alone as alone:
            self._seeds = self._seeds or self._filler.seeds
            self._add(alone.items, self._first)
            return self._go_on_with(alone.cursor, self._first + elements(alone.items))
        self._add(part, self._first)
        self._rows.append(part.block.rows)
        self._number += 1
        self._first += part.block.rows
        self._previous = part
        if part.is_last:
            self._ended = True
            self._filler.close()
            with self._shared.surviving():
                self._filler.finish(self._rows)

    def _jump(self, plan: Plan) -> None:
        """To the part with the next element, if it is known which that is."""
        if not self._at:
            return
        if self._shared.manifest is not None:
            rows = self._shared.manifest.rows
            number = max(n for n, first in enumerate(accumulate(rows[:-1], initial=0)) if first <= self._at)
        elif plan.part_rows is not None:
            number = plan.part_at(self._at)
            rows = tuple(end - begin for begin, end in map(plan.span, range(number)))
        else:
            return
        first = sum(rows[:number])
        previous = self._shared.part(number - 1) if number else None
        if previous is not None and previous.first + previous.block.rows == first:
            self._number, self._first, self._previous = number, first, previous
            self._rows = list(rows[:number])

    def _go_alone(self) -> None:
        self._seeds = self._seeds or self._filler.seeds
        self._go_on_with(self._filler.cursor(self._seeds, self._number, self._previous), self._first)

    def _go_on_with(self, own: Cursor, first: int) -> None:
        """Alone, with a cursor in front of that element: those before the next are passed over."""
        self._own = own
        while first < self._at:
            try:
                block = own.take(self._at - first)
            except Exception:
                first += 1  # it was raised before
                continue
            if block is None:
                break
            first += block.rows

    def close(self) -> None:
        super().close()
        self._filler.close()

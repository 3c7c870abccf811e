"""Who makes which part of an entry, so that several runs share the work and none waits for one that is gone.

A part is made at one go by the one that has the claim on it, however slowly its consumer takes the rows. So a
claim that is held means that someone is at work.

- Of an indexed input any part can be made at any time: who needs one that another is making, makes a later
  one meanwhile.
- Of a streamed input each part begins where the one before ended. One run leads and keeps its place in the
  input; the others follow. When nothing has come for a while, the leader's consumer is slower than theirs,
  and one of them makes the next part itself; so the quickest leads.

An element that fails is not cached: the part that it is in is given to who asked, and to nobody else.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf
from typing import TypeAlias

from feedline.block import Block
from feedline.cache.part import Made, Part
from feedline.cache.plan import Plan, name_of
from feedline.cache.shared import SharedEntry
from feedline.cache.store import Claim, NoRoom
from feedline.errors import CacheError, NotRepeatable, UsageError
from feedline.graph import Context, Cursor, Indices, Node, State, drawing_nodes, seeded
from feedline.graph.span import Span
from feedline.graph.waiting import pause

PART_BYTES = 16 << 20
PART_SECONDS = 0.25
_MOST_PARTS = 8192  # where the number is known; else parts grow with their number
LOOKED_AT = 64  # parts, for one that nobody makes: for each the store is asked
_FEWEST_ROWS = 4  # that tell how long rows take: the first ones may have to wait for workers
EVEN = 256  # parts of fast rows have a multiple of that many, so that usual batches are not cut
_PATIENCE = 1.0  # seconds without a new part, after which another than the leader makes one
_HOPE = 600.0  # seconds without one, after which a run gives up that cannot make it, and others do not
_SLEEP, _LONGEST_SLEEP = 0.001, 0.02

Items: TypeAlias = list[Block | Exception]
"""Rows, and errors in the places of their elements."""

Draft: TypeAlias = Callable[[Sequence[int], int | None], Plan]
"""Makes a plan of seeds, and of the rows of a part."""


class Wait:
    """For others."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._sleep = _SLEEP

    @property
    def is_long(self) -> bool:
        return time.monotonic() - self._began > _PATIENCE

    @property
    def is_hopeless(self) -> bool:
        return time.monotonic() - self._began > _HOPE

    def wait(self) -> None:
        pause(self._sleep)
        self._sleep = min(2 * self._sleep, _LONGEST_SLEEP)


class Filler:
    def __init__(self, shared: SharedEntry, input: Node, context: Context, draft: Draft) -> None:
        self._shared = shared
        self._input = input
        self._context = replace(context, must_repeat=True)
        self._draft = draft
        self._refused: NotRepeatable | None = None  # why this run cannot go on from the parts of others
        self.seeds = [node.seed_in(context) for node in drawing_nodes(input)]

    def _seeded(self, seeds: Sequence[int]) -> Context:
        return seeded(self._context, self._input, seeds)

    def _check(self, plan: Plan, length: int | None) -> None:
        """Files have an index at one time and none at another, and with it a length."""
        if not self._has_seeds(plan):
            raise NoRoom(
                f"{self._shared.place}: its plan has {len(plan.seeds)} seeds, and this pipeline "
                f"{len(self.seeds)} steps that draw one.\n  To begin it anew, remove it when no run uses it"
            )
        if plan.length != length:
            kinds = [
                "in order" if one is None else f"by number, {one:,} elements" for one in (plan.length, length)
            ]
            raise NoRoom(
                f"{self._shared.place}: the run that began it read its input {kinds[0]}, and this one "
                f"reads it {kinds[1]}.\n  To begin it anew, remove it when no run uses it"
            )

    def _wait(self, wait: Wait) -> None:
        """For others, unless there is no hope that they do what this run cannot do."""
        if self._refused is not None and (wait.is_hopeless or not self._shared.has_other_users()):
            raise CacheError(
                f"{self._shared.place}: no run can go on from the parts that are there.\n  {self._refused}\n"
                f"  To start over, remove the entry:  feedline cache rm {self._shared.location} "
                f"{self._shared.key[:8]}"
            ) from None
        wait.wait()

    def _has_seeds(self, plan: Plan) -> bool:
        return len(plan.seeds) == len(self.seeds)

    def _follow(self, plan: Plan) -> Plan:
        """From now on compute what all compute that follow this plan."""
        self._context = self._seeded(plan.seeds)
        return plan


class ProbingFiller(Filler, ABC):
    """Parts whose rows are known before they are made. The run that makes the plan finds out how many rows a
    part should have by making the first one."""

    length: int | None  # of the input, if it is known

    def plan(self) -> Plan:
        """The plan that holds."""
        wait = Wait()
        while (plan := self._shared.find_plan()) is None:
            claim = self._shared.claim(name_of(0))
            if claim is None:
                wait.wait()
                continue
            try:
                if self._shared.find_plan() is None:
                    items = self._probe()
                    rows = self._part_rows(items)
                    plan = self._shared.propose(self._draft(self.seeds, rows))
                    # Another may have been quicker, and drawn other seeds.
                    if (plan.part_rows, plan.seeds) == (rows, tuple(self.seeds)) and plan.parts != 0:
                        self._publish(plan, 0, items, claim)
            finally:
                self._shared.release(claim)
        self._check(plan, self.length)
        return self._follow(plan)

    def _probe(self) -> Items:
        """The first elements: twice as many again and again, until they are enough for a part."""
        items: Items = []
        rows, best = 0, inf
        length = inf if self.length is None else self.length
        while rows < length and not self._is_over:
            begin, end = rows, int(min(max(1, 2 * rows), length))
            began = time.perf_counter()
            items += self._compute(begin, end)
            best = min(best, (time.perf_counter() - began) / (end - begin))
            rows = end
            size = sum(item.nbytes for item in items if isinstance(item, Block))
            is_slow = 2 * rows * best > PART_SECONDS and (rows * _MOST_PARTS >= length or length == inf)
            if 2 * size > PART_BYTES or (rows >= _FEWEST_ROWS and is_slow):
                break
        return items

    def _part_rows(self, items: Items) -> int:
        """How many rows parts should have, where these are enough for the first."""
        return max(1, elements(items))

    @property
    def _is_over(self) -> bool:
        """Is there nothing more to compute, though the length was not known?"""
        return False

    def _published(self, made: Made, claim: Claim, rows: int | None = None) -> Part | None:
        """The part, of this run or of another that was first. None when it can be neither kept nor read."""
        for _ in range(2):  # what is there already may be damaged, and is dropped then
            found = self._shared.publish(made, claim) or self._shared.part(made.number, made.first, rows)
            if found is not None:
                return found
        return None

    @abstractmethod
    def _compute(self, begin: int, end: int) -> Items:
        """The elements with these numbers; fewer where the input ends."""

    @abstractmethod
    def _publish(self, plan: Plan, number: int, items: Items, claim: Claim) -> Part | Items | None:
        """The part, if others can have it."""


class IndexedFiller(ProbingFiller):
    """The parts of an indexed input, in any order."""

    def __init__(self, shared: SharedEntry, input: Node, context: Context, draft: Draft) -> None:
        super().__init__(shared, input, context, draft)
        self.length: int = input.length() or 0
        self._failed: tuple[int, Items] | None = None  # a part that was made in advance, and cannot be kept

    def cursor(self, seeds: Sequence[int], at: int) -> Cursor:
        """The elements from there on, as they are computed."""
        return Cursor(self._seeded(seeds), Span(self._input, at, self.length))

    def gather(self, indices: Indices) -> Block:
        """These elements, as they are computed: in the order that the entry has, if it was ever known."""
        plan = self._shared.plan
        seeds = self.seeds if plan is None or not self._has_seeds(plan) else plan.seeds
        return self._seeded(seeds).gather(self._input, indices)

    def finish(self, plan: Plan) -> None:
        """The end was reached; if all parts are there, the entry is complete."""
        if self._shared.manifest is not None:
            return
        assert plan.parts is not None
        if all(self._shared.has(number) for number in range(plan.parts)):
            self._shared.finish(tuple(self._place(plan, number)[1] for number in range(plan.parts)))

    def part(self, plan: Plan, number: int) -> Part | Items:
        """The part; or what it has, when it cannot be shared."""
        wait = Wait()
        while True:
            part = self._shared.part(number, *self._place(plan, number))
            if part is not None:
                return part
            if self._failed is not None and self._failed[0] == number:
                items, self._failed = self._failed[1], None
                return items
            claim = self._shared.claim(name_of(number))
            if claim is not None:
                try:
                    if not self._shared.has(number):
                        return self._make(plan, number, claim)
                finally:
                    self._shared.release(claim)
            elif not self._work_ahead(plan, number + 1):
                wait.wait()

    def _work_ahead(self, plan: Plan, number: int) -> bool:
        """Make the first part from there on that nobody makes. False when there is none."""
        if self._failed is not None:
            return False
        assert plan.parts is not None
        for later in range(number, min(number + LOOKED_AT, plan.parts)):
            if self._shared.has(later):
                continue
            claim = self._shared.claim(name_of(later))
            if claim is None:
                continue
            try:
                if not self._shared.has(later):
                    made = self._make(plan, later, claim)
                    if not isinstance(made, Part):
                        self._failed = later, made
                    return True
            finally:
                self._shared.release(claim)
        return False

    def _make(self, plan: Plan, number: int, claim: Claim) -> Part | Items:
        first, rows = self._place(plan, number)
        items = self._compute(first, first + rows)
        return self._publish(plan, number, items, claim)

    def _place(self, plan: Plan, number: int) -> tuple[int, int]:
        """The first element of a part, and how many there are."""
        begin, end = plan.span(number)
        return begin, end - begin

    def _publish(self, plan: Plan, number: int, items: Items, claim: Claim) -> Part | Items:
        blocks = [item for item in items if isinstance(item, Block)]
        if len(blocks) < len(items):
            return items
        first, rows = self._place(plan, number)
        made = Made(number, first, blocks, number + 1 == plan.parts, None)
        return self._published(made, claim, rows) or items

    def _compute(self, begin: int, end: int) -> Items:
        rows = Cursor(self._context, Span(self._input, begin, end))
        items: Items = []
        try:
            while (left := end - begin - elements(items)) > 0:
                try:
                    block = rows.take(left)
                except Exception as error:
                    items.append(error)
                    continue
                if block is None:
                    raise UsageError(
                        f"{self._input}: it has {begin + elements(items):,} elements, and said that it has "
                        f"{self.length:,}."
                    )
                items.append(block)
        finally:
            rows.close()
        return items


def limits(number: int) -> tuple[int, float]:
    """Bytes and seconds after which a part ends whose rows are not planned. Later ones are larger, so that an
    entry does not have millions of them."""
    return PART_BYTES, PART_SECONDS * (1 + number / 1024)


def elements(items: Items) -> int:
    return sum(item.rows if isinstance(item, Block) else 1 for item in items)


def _after(part: Part | None) -> State:
    """The state of the input after a part, or at the beginning."""
    return None if part is None else part.after


class Alone(Exception):
    """From here on, a run reads its input itself: `cursor` is after the rows in `items`."""

    def __init__(self, items: Items, cursor: Cursor) -> None:
        super().__init__()
        self.items = items
        self.cursor = cursor


class StreamedFiller(Filler):
    """The parts of an input that can only be read in order."""

    def __init__(self, shared: SharedEntry, input: Node, context: Context, draft: Draft) -> None:
        super().__init__(shared, input, context, draft)
        self._lead: Claim | None = None
        self._cursor: Cursor | None = None
        self._at = 0  # the part in front of which the cursor is

    def cursor(self, seeds: Sequence[int], number: int, previous: Part | None) -> Cursor:
        """The elements from that part on, as they are computed; who asks leads nobody any more. If one is in
        place it is that one: a generator would have to run again up to there."""
        cursor, self._cursor = self._cursor, None
        if cursor is not None and self._at != number:
            cursor.close()
            cursor = None
        self.close()
        return cursor or Cursor(self._seeded(seeds), self._input, _after(previous))

    def plan(self) -> Plan:
        plan = self._shared.find_plan() or self._shared.propose(self._draft(self.seeds, None))
        self._check(plan, None)
        return self._follow(plan)

    def part(self, plan: Plan, number: int, first: int, previous: Part | None) -> Part:
        """The part, whose first element has the number `first`. `previous` is the one before it."""
        wait = Wait()
        while True:
            part = self._shared.part(number, first)
            if part is not None:
                if self._cursor is not None and self._at == number:
                    self.close()  # another overtook us
                return part
            if self._may_make(number, wait):
                claim = self._shared.claim(name_of(number))
                if claim is not None:
                    try:
                        if not self._shared.has(number):
                            made = self._make(number, first, _after(previous), claim)
                            if made is not None:
                                return made
                            continue
                    except NotRepeatable as error:
                        self._refused = error
                        self.close()
                    finally:
                        self._shared.release(claim)
            self._wait(wait)

    def _may_make(self, number: int, wait: Wait) -> bool:
        if self._refused is not None:
            return False
        if self._lead is None:
            self._lead = self._shared.claim("lead")
        # One that made the part before is in place: a leader that sleeps costs it one wait, not one a part.
        return self._lead is not None or (self._cursor is not None and self._at == number) or wait.is_long

    def _make(self, number: int, first: int, before: State, claim: Claim) -> Part | None:
        """None when another was first."""
        cursor = self._cursor_at(number, before)
        self._cursor = None  # while its rows are on the way
        try:
            rows, is_last = self._extent_of(number, first)
            if rows is None:
                blocks, is_last = self._collect(cursor, number)
            else:
                blocks = self._collect_again(cursor, rows)
            made = Made(number, first, blocks, is_last, cursor.state())
            published = self._shared.publish(made, claim)
        except Alone:
            raise
        except BaseException:
            cursor.close()
            raise
        if published is None or is_last:
            cursor.close()
        else:
            self._cursor, self._at = cursor, number + 1
        return published

    def _cursor_at(self, number: int, before: State) -> Cursor:
        if self._cursor is not None and self._at == number:
            return self._cursor
        if self._cursor is not None:
            self._cursor.close()
        return Cursor(self._context, self._input, before)

    def _extent_of(self, number: int, first: int) -> tuple[int | None, bool]:
        """How many rows the part must have, because what follows it is there: it was damaged; and whether it
        is the last one."""
        rows = () if self._shared.manifest is None else self._shared.manifest.rows
        if number < len(rows) and sum(rows[:number]) == first:  # else parts were made again with other sizes
            return rows[number], number + 1 == len(rows)
        next_one = self._shared.part(number + 1)
        # One that begins too early followed another part, which was damaged too: it will be made again.
        return None if next_one is None or next_one.first <= first else next_one.first - first, False

    def _collect_again(self, cursor: Cursor, rows: int) -> list[Block]:
        blocks: list[Block] = []
        while rows:
            block = self._take(cursor, rows, blocks)
            if block is None:
                raise CacheError(
                    f"{self._shared.place}: {self._input} has fewer elements than when they were cached.\n"
                    "  If that is right, remove the entry (feedline cache rm), so that it is made anew."
                )
            blocks.append(block)
            rows -= block.rows
        return blocks

    def _collect(self, cursor: Cursor, number: int) -> tuple[list[Block], bool]:
        """As many rows as make a part, and whether they are the last."""
        blocks: list[Block] = []
        rows = size = 0
        most, seconds = limits(number)
        until = time.perf_counter() + seconds
        limit = EVEN
        while True:
            is_enough = size >= most or (rows and time.perf_counter() > until)
            if is_enough and (rows < EVEN or rows % EVEN == 0):
                return blocks, False
            if is_enough:
                limit = EVEN - rows % EVEN
            elif rows:
                limit = max(1, min(self._context.block_rows, (most - size) * rows // max(1, size)))
            block = self._take(cursor, limit, blocks)
            if block is None:
                return blocks, True
            blocks.append(block)
            rows, size = rows + block.rows, size + block.nbytes

    def finish(self, rows: Sequence[int]) -> None:
        """The end was reached. `rows` has the number of rows of each part."""
        self._shared.finish(tuple(rows))

    def _take(self, cursor: Cursor, limit: int, before: list[Block]) -> Block | None:
        try:
            return cursor.take(limit)
        except NotRepeatable:
            raise
        except Exception as error:
            self.close()
            raise Alone([*before, error], cursor) from None

    def close(self) -> None:
        if self._cursor is not None:
            self._cursor.close()
            self._cursor = None
        if self._lead is not None:
            self._shared.release(self._lead)
            self._lead = None

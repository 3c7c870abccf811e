"""Sharing the work on an input that can only be read in order.

The steps before a cache are often cheap up to one expensive function: files are listed, interleaved and
filtered, and then every element is decoded or tokenized. Each run goes through the cheap steps itself, and
calls the function only for the rows of its own parts. Whoever waits for a part makes a later one meanwhile.

    list_files -> interleave -> shuffle -> filter | map -> batch | cache
                 every run reads all of this      | each run computes its own parts of this

That is right only if every run reads the same rows. So each part carries a digest of all input rows up to its
first one, and up to its last one. A part counts only if it goes on where the part before ends. Where that
fails, the input does not repeat itself: the part is dropped, and the entry is filled in order.

It pays only if reading is much cheaper than computing. Each part says how long both took. Where it does not
pay, one run leads and the others read along.

Parts have the rows that the plan says. One that turns out much too large is cut short, and from then on the
entry is filled in order, too: one run makes part after part, each as large as it should be.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from math import prod

from feedline.block import Block
from feedline.cache import filling
from feedline.cache.filling import EVEN, LOOKED_AT, Alone, Draft, Items, ProbingFiller, Wait
from feedline.cache.part import Made, Part, Provenance
from feedline.cache.plan import NOT_REPEATABLE, Plan, name_of
from feedline.cache.shared import SharedEntry
from feedline.cache.store import Claim
from feedline.errors import CacheError, NotRepeatable
from feedline.graph import Context, Cursor, Node, State, Stream
from feedline.graph.span import OpensSpans, Span
from feedline.row_digest import RowDigest

_FOREVER = 1 << 62  # a row that no input has
_LARGEST, _LONGEST = 64 << 20, 5.0  # bytes and seconds, after which a part is cut short


def steps_to_divide(input: Node) -> list[OpensSpans]:
    """The last steps whose rows each follow from a fixed number of rows; empty if none calls a function."""
    steps: list[OpensSpans] = []
    node = input
    while isinstance(node, OpensSpans):
        steps.append(node)
        node = node.input
    return steps if any(step.runs_python for step in steps) else []


def sharing(input: Node) -> str:
    """How runs that cache this input share the work, in a sentence."""
    if input.length() is not None:
        return "Runs can share the work by element number: each computes its own parts."
    steps = steps_to_divide(input)
    if steps:
        first = next(step for step in reversed(steps) if step.runs_python)
        return (
            f"Runs can share the work of {first}: each reads the steps before it, and computes its own parts."
        )
    last = input
    while isinstance(last, OpensSpans):
        last = last.input
    alone = "One run computes, and the others read along"
    if any(node.runs_python for node in last.inputs):
        return (
            f"{alone}: {last}, comes after the last function.\n  To share the work, put it after the cache."
        )
    return f"{alone}: no function comes after {last}."


class DividedFiller(ProbingFiller):
    """The parts of an input whose last steps (`steps_to_divide`) are divided among the runs."""

    length = None

    def __init__(self, shared: SharedEntry, input: Node, context: Context, draft: Draft) -> None:
        super().__init__(shared, input, context, draft)
        self._steps = steps_to_divide(input)
        self._head = self._steps[-1].input
        self._rows_each = prod(step.rows_each for step in self._steps)
        self._reader: _Reader | None = None
        self._lead: Claim | None = None
        self._stop: int | None = None  # no part from this one on is made before it is needed
        self._probed: Items | None = None  # while the plan is made
        self._has_failed = False  # has an element, of those that were computed last?

    def plan(self) -> Plan:
        try:
            plan = super().plan()
        except CacheError as error:
            if self._probed is None:
                raise
            with self._shared.surviving():
                raise error
            # The input goes on from where it is: a generator would have to run again up to there.
            items, self._probed = self._probed, None
            if self._has_failed:
                raise Alone([], Cursor(self._context, self._input)) from None
            raise Alone(items, self._rest(self._context)) from None
        if self._probed is not None and self._reader is not None and not self._reader.number:
            self._drop_reader()  # what was computed is not part 0 of the plan, which another run made
        self._probed = None
        return plan

    def _part_rows(self, items: Items) -> int:
        # An element that fails tells nothing about how many rows a part should have.
        return EVEN if self._has_failed else super()._part_rows(items)

    def _probe(self) -> Items:
        self._probed = super()._probe()
        return self._probed

    # Which part to make

    def part(self, plan: Plan, number: int, first: int, previous: Part | None) -> Part:
        """The part. `previous` is the one before it. Alone when one of its elements fails."""
        wait = Wait()
        while True:
            part = self._find(number, first, previous) or self._make_next(plan, number, first, previous, wait)
            if part is not None:
                assert part.provenance is not None
                self._shared.costs.add(part.provenance)
                return part
            if not (self._divides and self._work_ahead(plan, number, previous)):
                self._wait(wait)

    def _find(self, number: int, first: int, previous: Part | None) -> Part | None:
        """The part, if it is there and was made from the rows that follow those of the previous one."""
        part = self._shared.part(number, first)
        if part is not None and not _follows(part, previous):
            self._shared.go_in_order(NOT_REPEATABLE)
            part = self._shared.part(number, first, before=_digest_after(previous))  # drops it
        return part

    @property
    def _divides(self) -> bool:
        """May this run read the input, too, and is that worth it?"""
        if self._refused is not None or self._shared.is_in_order:
            return False
        return self._shared.costs.are_worth_it

    def _may_make(self, number: int, wait: Wait) -> bool:
        if self._divides or self._refused is not None:
            return self._refused is None
        is_in_place = self._reader is not None and self._reader.number == number
        # Of an input that does not repeat itself, the run that made the part before knows how it goes on.
        may_lead = is_in_place or wait.is_long or not self._shared.is_in_order
        if self._lead is None and may_lead:
            self._lead = self._shared.claim("lead")
        return self._lead is not None or is_in_place or wait.is_long

    def _work_ahead(self, plan: Plan, number: int, previous: Part | None) -> bool:
        """Make the first part after that one that nobody makes. False when there is none."""
        if self._shared.find_in_order():
            return False
        for later in range(number + 1, number + LOOKED_AT):
            if self._stop is not None and later >= self._stop:
                return False
            if self._reader is not None and self._reader.number > later:
                continue  # reading it again would cost more than waiting for the run that has the claim
            if self._shared.has(later):
                continue
            claim = self._shared.claim(name_of(later))
            if claim is None:
                continue
            try:
                if self._shared.has(later):
                    continue
                if not self._read_up_to(plan, later, number, previous):
                    return False
                items = self._compute(*plan.span(later))
                if self._is_cut or self._publish(plan, later, items, claim) is items:
                    self._stop = later  # whoever gets there cuts it short, or raises the error of an element
                    self._drop_reader()
                return True
            finally:
                self._shared.release(claim)
        return False

    # Making it

    def _make_next(
        self, plan: Plan, number: int, first: int, previous: Part | None, wait: Wait
    ) -> Part | None:
        """None when another run makes it."""
        claim = self._shared.claim(name_of(number)) if self._may_make(number, wait) else None
        if claim is None:
            return None
        try:
            return None if self._shared.has(number) else self._make(plan, number, first, previous, claim)
        except NotRepeatable as error:
            self._refused = error
            self._shared.go_in_order(NOT_REPEATABLE)
            self._give_up_lead()
            return None
        finally:
            self._shared.release(claim)

    def _make(self, plan: Plan, number: int, first: int, previous: Part | None, claim: Claim) -> Part | None:
        if not self._divides or not self._read_up_to(plan, number, number, previous):
            self._read_from(number, first, previous)
        assert self._reader is not None
        if self._reader.digest != _digest_after(previous):
            self._shared.go_in_order(NOT_REPEATABLE)
            self._read_from(number, first, previous)
        begin, end = plan.span(number)
        items = self._compute(first, first + end - begin, number if self._shared.is_in_order else None)
        if self._is_cut:
            self._shared.go_in_order("elements differ too much in size, or in the time that they take")
        made = self._publish(plan, number, items, claim, first)
        if isinstance(made, list):
            if isinstance(made[-1], NotRepeatable):
                raise made[-1]
            # From the beginning of the part: what follows a failure may depend on all rows in front of it.
            raise Alone([], self.cursor(plan.seeds, number, previous))
        # Another run may have been first, and have read other rows.
        return made if made is not None and _follows(made, previous) else None

    @property
    def _is_cut(self) -> bool:
        """Was the part that was computed last cut short, which the plan does not allow for?"""
        reader = self._reader
        return (
            reader is not None and reader.is_stopped and not reader.is_over and not self._shared.is_in_order
        )

    def _compute(self, begin: int, end: int, in_order: int | None = None) -> Items:
        """The elements with these numbers; fewer where the input ends, or where they are too large; and up to
        the first that fails. `in_order` is the number of a part that may have any size."""
        reader = self._reader
        if reader is None:  # only when the plan is made
            reader = _Reader(self._head_context(self._context), self._head, 0, 0, None, b"")
        self._reader = None  # while its rows are on the way
        most, longest = (_LARGEST, _LONGEST) if in_order is None else filling.limits(in_order)
        began = time.perf_counter()
        items: Items = []
        size = 0
        self._has_failed = True
        try:
            with closing(
                self._open(self._context, reader, begin, end if in_order is None else _FOREVER)
            ) as rows:
                while (block := rows.take(self._context.block_rows)) is not None:
                    items.append(block)
                    size += block.nbytes
                    if size >= most or time.perf_counter() - began > longest:
                        reader.stop(self._rows_each)
        except BaseException as error:
            reader.close()
            if isinstance(error, Exception):
                return [*items, error]
            raise
        self._has_failed = False
        reader.all_seconds += time.perf_counter() - began
        self._reader = reader
        return items

    def _publish(
        self, plan: Plan, number: int, items: Items, claim: Claim, first: int = 0
    ) -> Part | Items | None:
        """Share what was computed last: the part; the items, if one of them failed; None if it was lost.

        `first` is the number of its first element; 0: as the plan says.
        """
        blocks = [item for item in items if isinstance(item, Block)]
        if len(blocks) < len(items):
            return items
        reader = self._reader
        assert reader is not None
        if not reader.is_comparable:
            self._shared.go_in_order("its elements are objects, which runs cannot compare")
        is_last = reader.is_over
        provenance = reader.end_part()
        if is_last:
            self._stop = number + 1
        made = Made(number, first or plan.span(number)[0], blocks, is_last, reader.state(), provenance)
        return self._published(made, claim)

    # Reading the input

    def _read_up_to(self, plan: Plan, number: int, needed: int, previous: Part | None) -> bool:
        """Pass over the rows of the parts before that one, from the part that is needed next on. False when
        the input ends before it, or fails."""
        # One that is far behind would read for long, where most inputs can begin anywhere.
        if self._reader is None or not needed - LOOKED_AT <= self._reader.number <= number:
            self._read_from(needed, plan.span(needed)[0], previous)
        reader = self._reader
        assert reader is not None
        try:
            while reader.number < number:
                if not reader.pass_over(plan.span(reader.number)[1] * self._rows_each):
                    self._stop = reader.number
                    self._drop_reader()
                    return False
        except BaseException as error:
            self._stop = reader.number
            self._drop_reader()
            if isinstance(error, NotRepeatable):
                self._refused = error
                self._shared.go_in_order(NOT_REPEATABLE)
            if isinstance(error, Exception):
                return False
            raise
        return True

    def _read_from(self, number: int, first: int, previous: Part | None) -> None:
        """Begin to read behind the previous part, unless that is where the reader is."""
        if self._reader is not None:
            if self._reader.number == number and self._reader.digest == _digest_after(previous):
                return
            self._drop_reader()
        self._reader = self._reader_after(self._context, number, first, previous)

    def _reader_after(self, context: Context, number: int, first: int, previous: Part | None) -> _Reader:
        at = first * self._rows_each
        state = None if previous is None else previous.after
        return _Reader(self._head_context(context), self._head, number, at, state, _digest_after(previous))

    def _head_context(self, context: Context) -> Context:
        for step in self._steps:
            context = step.context_for_input(context)
        return context

    def _open(self, context: Context, reader: _Reader, begin: int, end: int) -> Cursor:
        """The elements with these numbers, computed from the rows that the reader gives next."""
        openers = {**context.span_openers, self._head: reader.open}
        return Cursor(replace(context, span_openers=openers), Span(self._input, begin, end))

    def _rest(self, context: Context) -> Cursor:
        """All elements from where the reader is."""
        assert self._reader is not None
        return self._open(context, self._reader, self._reader.at // self._rows_each, _FOREVER)

    def cursor(self, seeds: Sequence[int], number: int, previous: Part | None) -> Cursor:
        """The elements from that part on, computed here. The caller gives up the lead."""
        self._give_up_lead()
        context = self._seeded(seeds)
        if previous is None:
            self._drop_reader()
            return Cursor(context, self._input)
        if self._reader is None or self._reader.number != number:
            self._drop_reader()
            first = previous.first + previous.block.rows
            self._reader = self._reader_after(context, number, first, previous)
        return self._rest(context)

    @property
    def _is_over(self) -> bool:
        """Also when an element has failed, or the last ones were too large."""
        reader = self._reader
        return self._has_failed or (reader is not None and (reader.is_over or reader.is_stopped))

    def finish(self, rows: Sequence[int]) -> None:
        """The end was reached; if all parts are there, the entry is complete."""
        if all(self._shared.has(number) for number in range(len(rows))):
            self._shared.finish(tuple(rows))

    def _drop_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _give_up_lead(self) -> None:
        if self._lead is not None:
            self._shared.release(self._lead)
            self._lead = None

    def close(self) -> None:
        self._drop_reader()
        self._give_up_lead()


def _follows(part: Part, previous: Part | None) -> bool:
    """Was it made from the rows that come after those of the previous part?"""
    return part.provenance is not None and part.provenance.before == _digest_after(previous)


def _digest_after(part: Part | None) -> bytes:
    """Of all input rows up to the end of a part."""
    if part is None:
        return b""
    assert part.provenance is not None
    return part.provenance.after


class _Reader:
    """One run's place in the input. Between two calls it is in front of the first row of part `number`."""

    def __init__(
        self, context: Context, head: Node, number: int, at: int, state: State, digest: bytes
    ) -> None:
        self.number = number
        self.digest = digest  # of all rows before the part
        self.is_over = False  # has the input ended?
        self.all_seconds = 0.0  # that the part took so far
        self.at = at  # the number of the next row
        self.end = at  # the row before which reading stops
        self.is_stopped = False  # before the row that was asked for
        self._reading = 0.0  # seconds that it took to read the part so far
        self._row_digest = RowDigest(digest)
        self._cursor = Cursor(context, head, state)

    def open(self, begin: int, end: int) -> Stream:
        assert begin == self.at or self.is_over
        self.end, self.is_stopped = end, False
        return _ReaderStream(self)

    def stop(self, rows_each: int) -> None:
        """Read no further than is needed for whole rows of the steps behind."""
        end = self.at + -self.at % rows_each
        if end < self.end:
            self.end, self.is_stopped = end, True

    def take(self, limit: int) -> Block | None:
        """Rows before `end`; None when there are no more."""
        if self.is_over or self.at >= self.end:
            return None
        began = time.perf_counter()
        try:
            block = self._cursor.take(min(limit, self.end - self.at))
            if block is None:
                self.is_over = True
            else:
                self._row_digest.add(block)
                self.at += block.rows
            return block
        finally:
            self._reading += time.perf_counter() - began

    def pass_over(self, end: int) -> bool:
        """Read the rest of the part, which ends there. False when the input ended before."""
        self.end = end
        while self.take(end - self.at) is not None:
            pass
        self.end_part()
        return not self.is_over

    def end_part(self) -> Provenance:
        """All rows of the part were read."""
        provenance = Provenance(self.digest, self._row_digest.digest(), self._reading, self.all_seconds)
        self.number += 1
        self.digest = provenance.after
        self._row_digest = RowDigest(self.digest)
        self._reading = self.all_seconds = 0.0
        return provenance

    @property
    def is_comparable(self) -> bool:
        """Can other runs tell whether they read the same rows?"""
        return self._row_digest.is_comparable

    def state(self) -> State:
        return self._cursor.state()

    def close(self) -> None:
        self._cursor.close()


class _ReaderStream(Stream):
    """The rows of a reader, few at a time: the part ends when the steps behind have computed theirs."""

    def __init__(self, reader: _Reader) -> None:
        self._reader = reader

    def next(self, limit: int) -> Block | None:
        return self._reader.take(min(limit, EVEN))

    def state(self) -> State:
        return None  # nothing is resumed in the middle of a part

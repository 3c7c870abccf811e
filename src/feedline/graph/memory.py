"""How much memory the streams of an iteration hold, and how much they may.

A Budget counts for all streams together, an Account for one of them. An account tells two things:

- what its stream *needs* to go on at all: one element, a shuffle buffer, a batch. If the needs of all
  streams do not fit into the limit, that is an error, which names the largest.
- what it *holds* now. A stream that works ahead asks `may_hold` first, and stops where it may not. Until the
  first block has come through all steps, not all needs are known: so streams may not go far ahead yet.

Nobody ever waits for memory that another stream holds: so no limit, however small, can cause a deadlock.
A budget may be part of another one. What is held in it counts there, too.
"""

from __future__ import annotations

from collections import Counter
from threading import Lock
from typing import Any, NamedTuple, Protocol

from feedline.errors import OverMemoryLimit
from feedline.graph.shown import size_text

_OTHERS_TOLD = 4  # steps, in an error
_REMEDY = "Raise the limit, or make the elements smaller. With interleave, a smaller cycle_length helps, too."
_AHEAD_AT_FIRST = 8  # what part of the limit may be held ahead until all needs are known: an eighth


class Held(Protocol):
    """A step: what its streams gave, and the bytes that they hold, now and at most."""

    elements: int
    bytes: int
    held: int
    most_held: int


class Budget:
    """The memory of one iteration, or of several: give each `Context.limited(node, budget)`.

    Iterators that share a budget must be closed: what a dropped one held would count for ever.

    >>> budget = Budget(1_000_000)
    >>> buffer = budget.account("shuffle(100)", "its buffer")
    >>> buffer.hold(600_000, need=800_000)
    >>> ahead = budget.account("prefetch(2)")
    >>> budget.is_settled = True  # the first block has come through
    >>> ahead.may_hold(200_000), ahead.may_hold(300_000)
    (True, False)
    >>> budget.in_use, budget.most
    (600000, 600000)
    """

    def __init__(self, limit: int | None = None, parent: Budget | None = None) -> None:
        self.limit = limit
        self.in_use = 0
        self.most = 0  # that was in use at a time
        self.promised = 0  # in use, or needed, or reserved
        self.needed = 0
        self.needs: Counter[_Need] = Counter()
        self.needing: Counter[_Need] = Counter()  # how many streams
        self.ahead = 0  # in use by streams that need nothing
        self.last_step: object = None  # the one whose first block shows what all need
        self.is_settled = limit is None
        self.family: tuple[Budget, ...] = (self, *(parent.family if parent else ()))
        self.tightest = min((one.limit for one in self.family if one.limit is not None), default=None)
        self.is_limited = self.tightest is not None
        self.lock: Lock = parent.lock if parent else Lock()  # one for the family

    def account(
        self, step: object, what: str = "an element", remedy: str = _REMEDY, reserve: int = 0
    ) -> Account:
        """For one stream of the step. `what` and `remedy` go into the error if it needs too much.

        `reserve`: bytes that it may hold at any time, so nobody else may.
        """
        return Account(self, step, what, remedy, reserve)

    def has_room_ahead(self, more: int) -> bool:
        """Is there room for `more` bytes that no stream needs?"""
        if self.limit is None:
            return True
        if not self.is_settled and _AHEAD_AT_FIRST * (self.ahead + more) > self.limit:
            return False
        return self.promised + more <= self.limit

    def __reduce__(self) -> tuple[Any, ...]:
        """In another process, the limit holds for what is needed, and nobody works ahead.

        The process that asks does so already, within the limit for all.
        """
        return _elsewhere, (self.tightest,)


def _elsewhere(limit: int | None) -> Budget:
    budget = Budget(limit)
    if limit is not None:
        budget.promised = limit
    return budget


class _Need(NamedTuple):
    step: str
    what: str
    remedy: str


class Account:
    """What one stream holds. Of one thread at a time."""

    __slots__ = ("_budget", "_held", "_is_open", "_key", "_need", "_reserve", "_step", "_told", "measure")

    def __init__(self, budget: Budget, step: object, what: str, remedy: str, reserve: int) -> None:
        self._budget = budget
        self._step = step
        self._told = (what, remedy)
        self._key: _Need | None = None  # made when it is needed: most texts never are
        self._held = self._need = self._reserve = 0
        self._is_open = True
        self.measure: Held | None = None
        if reserve and budget.is_limited:
            self._set(0, 0, reserve)

    @property
    def is_limited(self) -> bool:
        return self._budget.is_limited

    @property
    def element_bytes(self) -> int:
        """How large an element of the step is, as far as is known."""
        measure = self.measure
        return measure.bytes // measure.elements if measure is not None and measure.elements else 0

    def hold(self, held: int, need: int = 0) -> None:
        """From now on the stream holds that many bytes. OverMemoryLimit if there is no room for its `need`.

        What was needed once is kept free until `close`. After that, nothing counts any more.
        """
        if self._is_open:
            self._set(held, max(need, self._need), self._reserve)
            if need:
                self._check()

    def may_hold(self, more: int) -> bool:
        """Is there room for that many bytes more, which the stream does not need?"""
        return all(one.has_room_ahead(more) for one in self._budget.family)

    def has_room(self, need: int) -> bool:
        """Would a need of that many bytes fit?"""
        needed = need - self._need
        return all(one.limit is None or one.needed + needed <= one.limit for one in self._budget.family)

    def check(self, need: int) -> None:
        """OverMemoryLimit if a need of that many bytes would not fit."""
        if not self.has_room(need):
            self._set(self._held, need, self._reserve)
            try:
                self._check()
            finally:
                self.close()

    def close(self) -> None:
        """The stream holds nothing any more."""
        if self._is_open:
            self._set(0, 0, 0)
            self._is_open = False

    def _set(self, held: int, need: int, reserve: int) -> None:
        budget = self._budget
        with budget.lock:
            grown = held - self._held
            if budget.is_limited:
                promised = max(held, need, reserve) - max(self._held, self._need, self._reserve)
                ahead = 0 if need or reserve or self._need or self._reserve else grown
                if need != self._need:
                    self._set_need(need)
                for one in budget.family:
                    one.promised += promised
                    one.ahead += ahead
            for one in budget.family:
                one.in_use += grown
                if one.in_use > one.most:
                    one.most = one.in_use
            if (measure := self.measure) is not None:
                measure.held += grown
                if measure.held > measure.most_held:
                    measure.most_held = measure.held
            self._held, self._need, self._reserve = held, need, reserve

    def _set_need(self, need: int) -> None:
        if self._key is None:
            self._key = _Need(str(self._step), *self._told)
        for one in self._budget.family:
            one.needed += need - self._need
            one.needs[self._key] += need - self._need
            one.needing[self._key] += bool(need) - bool(self._need)
            if not one.needs[self._key]:
                del one.needs[self._key], one.needing[self._key]

    def _check(self) -> None:
        for one in self._budget.family:
            if one.limit is not None and one.needed > one.limit:
                raise OverMemoryLimit(_message(one, one.limit))


def _message(budget: Budget, limit: int) -> str:
    with budget.lock:
        needs = Counter(budget.needs)
        ((largest, size),) = needs.most_common(1)
        streams = budget.needing[largest]
    total = sum(needs.values())
    times = f" ({streams:,} at a time)" if streams > 1 else ""
    own = f"{largest.step}: {largest.what}{times} needs {size_text(size)}"
    if size <= limit:
        own += f", all steps together {size_text(total)}"
    over = (size if size > limit else total) - limit
    lines = [f"{own}, and memory_limit is {size_text(limit)}: {size_text(over)} too much."]
    others: Counter[str] = Counter()
    for need, each in needs.items():
        if need != largest:
            others[need.step] += each
    if others:
        told = [f"{size_text(each)} for {step}" for step, each in others.most_common(_OTHERS_TOLD)]
        more = ["and others"] if len(others) > _OTHERS_TOLD else []
        lines.append(f"  Beside it: {'; '.join(told + more)}.")
    lines.append(f"  {largest.remedy}")
    return "\n".join(lines)

"""Memory that two processes share: segments without a name, passed by file descriptor.

Who makes a segment lends it, and gets it back when the last array over it has died on the other side. So
segments are reused, nothing is copied, and nothing is left behind by a process that is killed. A descriptor
is open only until it was passed on.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable
from threading import RLock
from typing import Any
from weakref import WeakSet

import numpy as np

from feedline import _native

_SMALLEST = 64 << 10
_MOST_IDLE = 256 << 20  # bytes that wait for their next use


class Segment:
    """One that this process has made."""

    def __init__(self, number: int, size: int) -> None:
        self.number = number
        self.size = size
        self.holders = 0  # counted by the Supply
        self.is_lost = False  # may a borrower that cannot be asked any more still have arrays over it?
        self._fd = os.memfd_create("feedline", os.MFD_CLOEXEC)
        try:
            os.ftruncate(self._fd, size)
            self.memory = _native.shared_memory(self._fd, size)
        except BaseException:
            self.passed_on()
            raise

    @property
    def fd(self) -> int | None:
        """For the message that first tells of the segment; None when the other side has it."""
        return self._fd if self._fd >= 0 else None

    def passed_on(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Supply:
    """Segments of this process. One that its last holder has released is used again. Any thread may ask."""

    def __init__(self, most_idle: int = _MOST_IDLE) -> None:
        self._most_idle = most_idle
        self._made = 0
        self._idle: dict[int, list[Segment]] = {}  # by their size
        self._idle_bytes = 0
        self._lock = RLock()  # a finalizer may release in the middle of it
        self._lenders: WeakSet[Lender] = WeakSet()

    def know(self, lender: Lender) -> None:
        """Tell it of segments that go back to the system."""
        self._lenders.add(lender)

    def take(self, size: int) -> Segment:
        """One of `size` bytes at least, held once."""
        size = _class_of(size)
        with self._lock:
            idle = self._idle.get(size)
            if idle:
                segment = idle.pop()
                self._idle_bytes -= size
                segment.holders = 1
                return segment
            self._made += 1
            number = self._made
        segment = Segment(number, size)
        segment.holders = 1
        return segment

    def hold(self, segment: Segment) -> None:
        with self._lock:
            segment.holders += 1

    def release(self, segment: Segment) -> None:
        with self._lock:
            segment.holders -= 1
            if segment.holders:
                return
            if not segment.is_lost and self._idle_bytes + segment.size <= self._most_idle:
                self._idle.setdefault(segment.size, []).append(segment)
                self._idle_bytes += segment.size
                return
        segment.passed_on()
        for lender in tuple(self._lenders):
            lender.note_closed(segment.number)

    def close(self) -> None:
        for segment in (one for idle in self._idle.values() for one in idle):
            segment.passed_on()
        self._idle, self._idle_bytes = {}, 0


class Lender:
    """The segments that one other process knows. Several may borrow from the same supply."""

    def __init__(self, supply: Supply | None = None) -> None:
        self._is_alone = supply is None
        self._supply = Supply() if supply is None else supply
        self._lent: dict[int, Segment] = {}
        self._known: set[int] = set()
        # The release of a segment may come from any thread.
        self._closed: deque[int] = deque()
        self._supply.know(self)

    def lend(self, size: int) -> Segment:
        """A segment for the other process alone, of `size` bytes at least."""
        segment = self._supply.take(size)
        self._lent[segment.number] = segment
        self._known.add(segment.number)
        return segment

    def share(self, segment: Segment) -> bool:
        """Lend one of the supply that others may borrow too. Is it new to the other process?"""
        self._supply.hold(segment)
        self._lent[segment.number] = segment
        is_new = segment.number not in self._known
        self._known.add(segment.number)
        return is_new

    def take_back(self, numbers: Iterable[int]) -> None:
        """KeyError if one was not lent."""
        for number in numbers:
            self._supply.release(self._lent.pop(number))

    def note_closed(self, number: int) -> None:
        if number in self._known:
            self._closed.append(number)

    def closed(self) -> list[int]:
        """Segments that went back to the system since this was asked last; the other side forgets them."""
        numbers = []
        while self._closed:
            numbers.append(self._closed.popleft())
        self._known.difference_update(numbers)
        return numbers

    def close(self) -> None:
        """The connection is gone. If the other process is not, its arrays stay as they are: what it had is
        never used again here, and is free when they die."""
        for segment in self._lent.values():
            segment.is_lost = True
        self.take_back(list(self._lent))
        self._known.clear()
        if self._is_alone:
            self._supply.close()


def _class_of(size: int) -> int:
    """Four classes an octave, as the native core's pool has them: a quarter is wasted at most.

    >>> _class_of(1), _class_of(65_537), _class_of(100_000)
    (65536, 81920, 114688)
    """
    step = max(_SMALLEST, 1 << (size.bit_length() - 1)) // 4
    return max(_SMALLEST, -(-size // step) * step)


class Borrower:
    """Segments that the other process has lent. `read_only` if others may have borrowed the same ones."""

    def __init__(self, *, read_only: bool = False) -> None:
        self._map = _native.mapped_file if read_only else _native.shared_memory
        self.loans = 0  # whose return was not told yet
        self._memory: dict[int, np.ndarray[Any, Any]] = {}
        # Arrays die in any thread, and in the middle of anything: a deque takes that without a lock.
        self._returned: deque[int] = deque()

    def learn(self, number: int, fd: int, size: int) -> None:
        """Of a segment that is new. The descriptor is closed."""
        try:
            self._memory[number] = self._map(fd, size)
        finally:
            os.close(fd)

    def borrow(self, number: int, size: int) -> np.ndarray[Any, Any]:
        """Its first `size` bytes."""
        self.loans += 1
        return np.asarray(_Loan(self._memory[number][:size], number, self._returned))

    def returned(self) -> list[int]:
        """The segments whose arrays have died since this was asked last."""
        numbers = []
        while self._returned:
            numbers.append(self._returned.popleft())
        self.loans -= len(numbers)
        return numbers

    def forget(self, numbers: list[int]) -> None:
        for number in numbers:
            del self._memory[number]

    def close(self) -> None:
        """Forget all. Arrays over them stay valid."""
        self._memory.clear()


class _Loan:
    """What arrays over a segment keep alive."""

    def __init__(self, memory: np.ndarray[Any, Any], number: int, returned: deque[int]) -> None:
        self._memory = memory
        self._number = number
        self._returned = returned

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self._memory.__array_interface__

    def __del__(self) -> None:
        self._returned.append(self._number)

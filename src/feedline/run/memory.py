"""Memory that two processes share: segments without a name, passed by file descriptor.

Who makes a segment lends it, and gets it back when the last array over it has died on the other side. So
segments are reused, nothing is copied, and nothing is left behind by a process that is killed. A descriptor
is open only until it was passed on.
"""

from __future__ import annotations

import os
from collections import deque
from typing import Any

import numpy as np

from feedline import _native

_SMALLEST = 64 << 10
_MOST_IDLE = 256 << 20  # bytes that wait for their next use


class Segment:
    """One that this process has made."""

    def __init__(self, number: int, size: int) -> None:
        self.number = number
        self.size = size
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


class Lender:
    """The segments that were made for one other process."""

    def __init__(self) -> None:
        self._made = 0
        self._lent: dict[int, Segment] = {}
        self._idle: dict[int, list[Segment]] = {}  # by their size
        self._idle_bytes = 0
        self._closed: list[int] = []

    def lend(self, size: int) -> Segment:
        """One of `size` bytes at least."""
        size = _class_of(size)
        idle = self._idle.get(size)
        if idle:
            segment = idle.pop()
            self._idle_bytes -= size
        else:
            self._made += 1
            segment = Segment(self._made, size)
        self._lent[segment.number] = segment
        return segment

    def take_back(self, numbers: list[int]) -> None:
        for number in numbers:
            segment = self._lent.pop(number)
            if self._idle_bytes + segment.size <= _MOST_IDLE:
                self._idle.setdefault(segment.size, []).append(segment)
                self._idle_bytes += segment.size
            else:
                segment.passed_on()
                self._closed.append(number)

    def closed(self) -> list[int]:
        """Segments that went back to the system since this was asked last; the other side forgets them."""
        numbers, self._closed = self._closed, []
        return numbers

    def close(self) -> None:
        for segment in [*self._lent.values(), *(one for idle in self._idle.values() for one in idle)]:
            segment.passed_on()
        self._lent, self._idle, self._idle_bytes = {}, {}, 0


def _class_of(size: int) -> int:
    """Four classes an octave, as the native core's pool has them: a quarter is wasted at most.

    >>> _class_of(1), _class_of(65_537), _class_of(100_000)
    (65536, 81920, 114688)
    """
    step = max(_SMALLEST, 1 << (size.bit_length() - 1)) // 4
    return max(_SMALLEST, -(-size // step) * step)


class Borrower:
    """Segments that the other process has lent."""

    def __init__(self) -> None:
        self._memory: dict[int, np.ndarray[Any, Any]] = {}
        # Arrays die in any thread, and in the middle of anything: a deque takes that without a lock.
        self._returned: deque[int] = deque()

    def learn(self, number: int, fd: int, size: int) -> None:
        """Of a segment that is new. The descriptor is closed."""
        try:
            self._memory[number] = _native.shared_memory(fd, size)
        finally:
            os.close(fd)

    def borrow(self, number: int, size: int) -> np.ndarray[Any, Any]:
        """Its first `size` bytes."""
        return np.asarray(_Loan(self._memory[number][:size], number, self._returned))

    def returned(self) -> list[int]:
        """The segments whose arrays have died since this was asked last."""
        numbers = []
        while self._returned:
            numbers.append(self._returned.popleft())
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

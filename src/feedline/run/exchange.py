"""One end of the way between a process and its worker: messages, and segments that are lent both ways."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

from feedline.run.channel import MOST, Channel, Lent, Long
from feedline.run.memory import Borrower, Lender, Segment


class Exchange:
    """Closed is raised by all of them when the other side is gone."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self._lender = Lender()
        self._borrower = Borrower()

    def lend(self, size: int) -> Segment:
        """Memory to be filled, which the other side has been told of."""
        segment = self._lender.lend(size)
        if segment.fd is not None:
            self.send(Lent(segment.number, segment.size), segment.fd)
            segment.passed_on()
        return segment

    def borrow(self, number: int, size: int) -> np.ndarray[Any, Any]:
        """What the other side has written to the front of a segment."""
        return self._borrower.borrow(number, size)

    def send(self, message: tuple[Any, ...], fd: int | None = None) -> None:
        """With it goes which segments are not used any more, and which their maker has closed."""
        # Pickled, because both sides are the same program.
        data = pickle.dumps((message, self._borrower.returned(), self._lender.closed()), 5)
        if len(data) > MOST:
            segment = self.lend(len(data))
            segment.memory[: len(data)] = np.frombuffer(data, np.uint8)
            data = pickle.dumps((Long(segment.number, len(data)), [], []), 5)
        self.channel.send(data, fd)

    def receive(self) -> tuple[Any, ...] | None:
        """The next message; None when it was about a new segment."""
        data, fd = self.channel.receive()
        message: tuple[Any, ...]
        message, returned, closed = pickle.loads(data)
        if isinstance(message, Long):
            message, returned, closed = pickle.loads(self.borrow(*message).data)
        self._lender.take_back(returned)
        self._borrower.forget(closed)
        if isinstance(message, Lent):
            assert fd is not None
            self._borrower.learn(message.number, fd, message.size)
            return None
        return message

    def close(self) -> None:
        self.channel.close()
        self._lender.close()
        self._borrower.close()

"""mode="whole": every reader gets the whole pipeline, and readers that are close together share the work.

A reader at some state joins the producer that still has the block after it. Where none has, it gets a
producer of its own, which others may join. A reader that falls behind its producer's window is moved so.
"""

from __future__ import annotations

from collections.abc import Callable

from feedline.run.memory import Supply
from feedline.serve.limits import Kept
from feedline.serve.pipeline import Pipeline
from feedline.serve.producer import AHEAD, Entry, Producer


class Reader:
    """One client of a pass."""

    def __init__(self, whole: Whole, state: str) -> None:
        self._whole = whole
        self._state = state  # after what was given last
        self._producer, self._number = whole.join(state)

    def ask(self, after: int | None) -> None:
        """What follows is known here."""

    def next(self) -> Entry | None:
        """The entry that follows, with its segment held for the caller; None while it is not made."""
        if (older := self._whole.find_older(self._state, self._producer)) is not None:
            self._move(older)
        try:
            entry = self._producer.entry(self._number)
        except LookupError:  # it fell behind
            self._move(self._whole.join(self._state))
            entry = self._producer.entry(self._number)
        if entry is not None:
            self._number += 1
            if entry.after is not None:
                self._state = entry.after
        return entry

    def _move(self, to: tuple[Producer, int]) -> None:
        left, (self._producer, self._number) = self._producer, to
        self._whole.leave(left)

    def close(self) -> None:
        self._whole.leave(self._producer)


class Whole:
    """The producers of one pipeline."""

    def __init__(
        self, pipeline: Pipeline, kept: Kept, supply: Supply, wake: Callable[[], None], ahead: int = AHEAD
    ) -> None:
        self.pipeline = pipeline
        self._ahead = ahead
        self._kept = kept
        self._supply = supply
        self._wake = wake
        self._producers: list[Producer] = []  # the oldest first

    @property
    def producers(self) -> int:
        return len(self._producers)

    def join(self, state: str) -> tuple[Producer, int]:
        """A producer that has what follows the state, or will have, and its number there."""
        found = self._find(state, self._producers)
        if found is None:
            self._kept.producers += 1
            producer = Producer(
                self.pipeline.open, state, self._supply, self._kept.window_bytes, self._wake, self._ahead
            )
            self._producers.append(producer)
            found = producer, 0
        found[0].readers += 1
        return found

    def find_older(self, state: str, than: Producer) -> tuple[Producer, int] | None:
        """The same among those that began before another: so readers that meet again stay together."""
        if than is self._producers[0]:
            return None
        found = self._find(state, self._producers[: self._producers.index(than)])
        if found is not None:
            found[0].readers += 1
        return found

    def _find(self, state: str, among: list[Producer]) -> tuple[Producer, int] | None:
        for producer in among:
            if (number := producer.find(state)) is not None:
                return producer, number
        return None

    def leave(self, producer: Producer) -> None:
        producer.readers -= 1
        if not producer.readers:
            self._producers.remove(producer)
            self._kept.producers -= 1
            producer.stop()

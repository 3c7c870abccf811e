"""How far an iteration was consumed, for streams whose source must know it.

A stream only knows what it was asked for, which may be far ahead of what its consumer has seen. What the
consumer has seen is told by the states that are taken of the whole iteration, and by its end.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Protocol, TypeVar

from feedline.graph.stream import State


class Follower(Protocol):
    def note_state(self, position: State) -> None:
        """A state was taken, of which this is the position. It is given out when this returns."""
        ...

    def note_end(self) -> None:
        """The last element was consumed."""
        ...

    def close(self) -> None:
        """The iteration is over, at its end or before."""
        ...


_Kind = TypeVar("_Kind", bound=Follower)


class Consumption:
    """One for each iteration."""

    def __init__(self) -> None:
        self._followers: dict[Hashable, Follower] = {}
        self.start: State = None  # the position at which the iteration was opened last
        self.is_restored = False  # by a state that was saved, instead of after an interrupt

    def follow(self, key: Hashable, make: Callable[[], _Kind]) -> _Kind:
        """The follower of that key, which is made if there is none."""
        if key not in self._followers:
            self._followers[key] = make()
        return self._followers[key]  # type: ignore[return-value]  # each key has its kind

    def begin_at(self, position: State, *, is_restored: bool) -> None:
        self.start, self.is_restored = position, is_restored

    def note_state(self, position: State) -> None:
        for follower in self._followers.values():
            follower.note_state(position)

    def note_end(self) -> None:
        for follower in self._followers.values():
            follower.note_end()

    def close(self) -> None:
        for follower in self._followers.values():
            follower.close()
        self._followers.clear()

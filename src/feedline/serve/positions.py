"""The states of streams in split mode, and finding them in the state of a whole pipeline.

The stream's state is an object that names the pass and the client, with the number of deliveries that it has
got. A Cursor over the stream adds the rows that were passed after that: [object, rows, ...]. Steps put such
states into theirs, so the smallest one is how far the client has come: what is before it is not needed again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from feedline.graph.stream import State
from feedline.serve.leases import Position


class Place(NamedTuple):
    """One client of a pass."""

    job: str
    generation: str
    client: str
    epoch: tuple[int, ...]

    def state(self, delivered: int) -> State:
        return {
            "split": self.job,
            "generation": self.generation,
            "client": self.client,
            "epoch": list(self.epoch),
            "delivered": delivered,
        }


_KEYS = {"split", "generation", "client", "epoch", "delivered"}


def place_of(state: Any) -> tuple[Place, int] | None:
    """The client whose state it is, and the number of its deliveries; None if it is another state."""
    if not isinstance(state, dict) or set(state) != _KEYS:
        return None
    place = Place(state["split"], state["generation"], state["client"], tuple(state["epoch"]))
    return place, state["delivered"]


def positions_in(state: State) -> dict[Place, Position]:
    """How far each client has come whose states are somewhere in this one.

    >>> place = Place("train", "5f", "rank 0", (0,))
    >>> positions_in([[place.state(3), 7, 107], {"a": [place.state(4), 0, 120]}])[place]
    Position(delivered=3, rows=7)
    """
    found: dict[Place, Position] = {}
    waiting: list[Any] = [state]
    while waiting:
        one = waiting.pop()
        rows = 0
        if isinstance(one, list) and len(one) == 3 and all(type(count) is int for count in one[1:]):
            one, rows = (one[0], one[1]) if place_of(one[0]) else (one, 0)  # of a Cursor
        told = place_of(one)
        if told is not None:
            place, delivered = told
            position = Position(delivered, rows)
            found[place] = min(position, found.get(place, position))
        elif isinstance(one, list):
            waiting += one
        elif isinstance(one, dict):
            waiting += one.values()
    return found

"""One pass over a dataset, divided among clients: which client has which elements, and what was acknowledged.

A pass is cut into leases, runs of consecutive elements. A lease belongs to one client at a time. It holds no
data, only the state of the input in front of it and a number of rows: reading them again from there gives the
same elements, because what a stream gives never depends on how many rows are asked for.

The deliveries to a client are numbered, and no number is used twice. A `Position` says how far a client has
come: all deliveries up to a number, and some rows of those after it.

Every change is an event, a JSON object. `record` gets each event before it takes effect, and `apply`
replays it, so a pass that is loaded from a journal never contradicts what clients were told. This module
knows neither files nor clocks: callers pass the time in.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any, NamedTuple, TypeAlias

from feedline.errors import UsageError
from feedline.graph.cursor import moved
from feedline.graph.stream import State

GRACE = float(os.environ.get("FEEDLINE_SERVICE_GRACE", "60"))
"""Seconds for which the leases of a lost client wait for its return. Tests set another number."""

PATIENCE = 5.0
"""Seconds for which a client at the end of a pass waits for clients that still hold leases: one may die."""

MOST_HELD = 1 << 20
"""Leases that a client may hold. With `ack="state"`, one that takes no states holds all that it was given."""

Event: TypeAlias = dict[str, Any]


class Position(NamedTuple):
    """How far a client has come."""

    delivered: int  # the number of a delivery: it and all before it are done
    rows: int  # that are done of the deliveries after it


BEGINNING = Position(0, 0)


@dataclass(frozen=True)
class Lease:
    first: int  # the number of its first element in the pass; elements that fail count, too
    state: State  # of the input's Cursor in front of it
    rows: int  # 0: a single element, which fails

    @property
    def elements(self) -> int:
        return max(1, self.rows)

    def head(self, rows: int) -> Lease:
        return Lease(self.first, self.state, rows)

    def tail(self, rows: int) -> Lease:
        """What is left after its first `rows` rows."""
        return Lease(self.first + rows, moved(self.state, rows), self.rows - rows) if rows else self

    def to_json(self) -> list[Any]:
        return [self.first, self.state, self.rows]


class Delivery(NamedTuple):
    number: int
    lease: Lease
    after: int  # the client's position behind it; more than `number` if it has lost the deliveries in between


class Read(NamedTuple):
    """Nothing is left to hand out: read the input, and `add` what it gives, or `end_input`."""


class Wait(NamedTuple):
    """Ask again when something has changed, and at this time at the latest."""

    until: float


class End(NamedTuple):
    """Nothing is left for this client."""


Answer: TypeAlias = Delivery | Read | Wait | End


@dataclass
class _Client:
    delivered: int = 0  # the last number that was used
    done: Position = BEGINNING  # acknowledged
    kept: Position = BEGINNING  # acknowledged before that: what is after it can be delivered again
    held: dict[int, Lease] = field(default_factory=dict)  # the deliveries after `kept`, by number
    has_finished: bool = False  # it closed its stream after the end, so it has consumed what it holds
    # Deliveries after this position, up to that number, went to other clients.
    passed_from: Position = BEGINNING
    passed_on: int = 0
    # What is not saved:
    connection: object = None
    lost: float = 0.0  # when the last connection ended
    waiting: float | None = None  # since when it has waited for the end
    is_at_end: bool = False

    def pending(self) -> Iterator[tuple[int, Lease, int]]:
        """The deliveries that are not done, and how many rows of each are."""
        rows = self.done.rows
        for number, lease in self.held.items():
            if number > self.done.delivered:
                if lease.rows and rows >= lease.rows:
                    rows -= lease.rows
                else:
                    yield number, lease, rows
                    rows = 0

    @property
    def is_pending(self) -> bool:
        return next(self.pending(), None) is not None

    def delivery_after(self, number: int) -> Delivery | None:
        """The first that it holds after this number, to be made again."""
        if number >= self.delivered:
            return None
        numbers = list(self.held)
        at = bisect_right(numbers, number)
        if at == len(numbers):
            return None
        following = numbers[at + 1] if at + 1 < len(numbers) else self.delivered + 1
        return Delivery(numbers[at], self.held[numbers[at]], following - 1)


class Pass:
    """The leases of one pass. For one thread at a time."""

    def __init__(self, ack: str, record: Callable[[Event], None], saved: State = None) -> None:
        self._keeps = ack == "state"  # are leases kept for the client that had them?
        self._record = record
        self._clients: dict[str, _Client] = {}
        self._returned: list[tuple[int, Lease]] = []  # a heap of leases that nobody holds
        self.given = 0  # elements that were read from the input
        self.input: State = [None, 0, 0]  # of its Cursor, after them
        self.has_ended = False  # has the input?
        if saved is not None:
            self._load(saved)

    # What clients do.

    def join(
        self, name: str, connection: object, at: Position | None = None, saved: Position | None = None
    ) -> int:
        """The client is there, and goes on after the delivery with the number that is returned.

        A client that knows its position says where it is `at`. One that does not goes on with what it has not
        acknowledged. `saved` is the position of the state from which the client was restored: what it did
        after that is lost, even if it was acknowledged.
        """
        client = self._clients.get(name)
        if client is not None and client.connection is not None:
            raise UsageError(
                f"another process reads this pass as client {name!r}.\n"
                "  Give each process a name of its own, by the environment variable FEEDLINE_CLIENT, or end "
                "the other process."
            )
        for position in (at, saved):
            if position is not None:
                self._check(name, position)
        if at is None or client is None:
            self._do({"again": name})
        if saved is not None:
            self._do({"resume": name, "at": list(saved)})
        client = self._clients[name]
        client.connection, client.waiting, client.is_at_end = connection, None, False
        return client.done.delivered if at is None else at.delivered

    def rewind(self, name: str) -> None:
        """The client resumes in an earlier pass, so it will need all of this pass again."""
        client = self._clients.get(name)
        if client is not None and client.connection is None:
            self._do({"resume": name, "at": list(client.kept)})

    def _check(self, name: str, position: Position) -> None:
        """Can the client go on from there without losing or repeating elements?"""
        client = self._clients.get(name, _Client())
        after = position.delivered
        if after > client.delivered:
            raise UsageError(
                f"client {name!r} has got {after:,} blocks of this pass, but the service knows of "
                f"{client.delivered:,} only.\n"
                "  Its journal was removed or replaced by an older copy. Begin again with another job."
            )
        if self._keeps and client.passed_from < position and after < client.passed_on:
            raise UsageError(
                f"client {name!r} was away for more than {GRACE:.0f} seconds, and blocks that it held went "
                "to other clients.\n  Restart it from the last state that it saved."
            )
        if after < client.kept.delivered or (not self._keeps and after < client.passed_on - 1):
            why = (
                "Only the last two states that were taken can be loaded."
                if self._keeps
                else 'With ack="next" a block counts as consumed when the next is asked for, and the last '
                "block of a client that is gone goes to another.\n"
                '  To go on from saved states:  distribute(..., ack="state")'
            )
            raise UsageError(
                f"client {name!r} wants to go on after block {after:,} of this pass, but what follows cannot "
                f"be had again: it has {client.delivered:,}, and acknowledged {client.done.delivered:,}.\n"
                f"  {why}"
            )

    def connection_of(self, name: str) -> object:
        """None if the client is not there."""
        return self._clients[name].connection if name in self._clients else None

    def is_at_end(self, name: str) -> bool:
        """Was the client told that nothing is left for it?"""
        return name in self._clients and self._clients[name].is_at_end

    def leave(self, name: str, connection: object, now: float, *, has_finished: bool = False) -> None:
        """The connection has ended; `has_finished`: after the client has consumed everything that it got."""
        client = self._clients.get(name)
        if client is None or client.connection != connection:
            return
        client.connection, client.lost, client.waiting = None, now, None
        if not self._keeps:
            if client.is_pending:
                self._do({"return": name})
        elif has_finished and client.is_at_end:
            # It may take a state later, in its next pass. Others neither wait for that nor get its elements.
            self._do({"finish": name})

    def acknowledge(self, name: str, position: Position) -> None:
        """What is before the position is done, and so never goes to another client."""
        self._check(name, position)
        if name in self._clients and position > self._clients[name].done:
            self._do({"ack": name, "at": list(position)})

    def acknowledge_all(self, name: str) -> None:
        """The client has finished this pass, and taken a state in a later one."""
        client = self._clients.get(name)
        if client is not None and client.has_finished and client.held:
            self._do({"ack": name, "at": [client.delivered, 0]})

    def next(self, name: str, after: int, now: float) -> Answer:
        """What a client gets that has got all deliveries up to `after`."""
        client = self._clients[name]
        if not self._keeps:
            self.acknowledge(name, Position(after, 0))
        answer = self._next(client, name, after, now)
        if not isinstance(answer, Wait):
            client.waiting = None
        client.is_at_end = isinstance(answer, End)
        return answer

    def _next(self, client: _Client, name: str, after: int, now: float) -> Answer:
        again = client.delivery_after(after)
        if again is not None:
            return again
        if len(client.held) >= MOST_HELD:
            raise UsageError(
                f"client {name!r} holds {len(client.held):,} blocks that it has not acknowledged.\n"
                '  With ack="state", call state_dict() now and then, or use ack="next".'
            )
        if not self._returned and self.has_ended:
            self._return_expired(now)
        if self._returned:
            number = client.delivered + 1
            self._do({"give": self._returned[0][0], "to": name, "as": number})
            return Delivery(number, client.held[number], number)
        if not self.has_ended:
            return Read()
        if client.waiting is None:
            client.waiting = now
        until = min(self._ends_of_waiting(client), default=now)
        return Wait(until) if until > now else End()

    def _return_expired(self, now: float) -> None:
        for name, client in list(self._clients.items()):
            is_lost = client.connection is None and not client.has_finished
            if is_lost and now >= client.lost + GRACE and client.is_pending:
                self._do({"return": name})

    def _ends_of_waiting(self, client: _Client) -> Iterator[float]:
        """Until when a client at the end waits for each of the others that hold leases."""
        assert client.waiting is not None
        for other in self._clients.values():
            if other is client or other.has_finished or not other.is_pending:
                continue
            if other.connection is None:
                yield other.lost + GRACE
            elif not other.is_at_end and other.waiting is None:  # those have consumed what they hold
                yield client.waiting + PATIENCE

    # What the input gives.

    def add(self, name: str, rows: int, after: State) -> Delivery:
        """Lease what was read from the input to the client: `rows` rows, or an element that fails (0).

        `after` is the state of the input's Cursor after them.
        """
        number = self._clients[name].delivered + 1
        self._do({"lease": rows, "after": after, "to": name, "as": number})
        return Delivery(number, self._clients[name].held[number], number)

    def end_input(self) -> None:
        if not self.has_ended:
            self._do({"end": self.given})

    # What is known.

    @property
    def is_complete(self) -> bool:
        """Was every element consumed?"""
        clients = self._clients.values()
        return (
            self.has_ended
            and not self._returned
            and all(one.has_finished or not one.is_pending for one in clients)
        )

    @property
    def is_needed(self) -> bool:
        """May anyone still get elements of it?"""
        return not self.is_complete or any(one.held or one.connection for one in self._clients.values())

    def progress(self) -> dict[str, Any]:
        """For people."""
        clients = {
            name: {
                "connected": one.connection is not None,
                "blocks": one.delivered,
                "unacknowledged": sum(lease.elements - rows for _, lease, rows in one.pending()),
            }
            for name, one in self._clients.items()
        }
        returned = sum(lease.elements for _, lease in self._returned)
        return {"given": self.given, "ended": self.has_ended, "returned": returned, "clients": clients}

    # Events.

    def _do(self, event: Event) -> None:
        self._record(event)
        self.apply(event)

    def apply(self, event: Event) -> None:
        match event:
            case {"lease": rows, "after": after, "to": name, "as": number}:
                lease = Lease(self.given, self.input, rows)
                self.given += lease.elements
                self.input = after
                self._hand(lease, name, number)
            case {"give": _, "to": name, "as": number}:
                self._hand(heappop(self._returned)[1], name, number)
            case {"return": name}:
                for lease in self._taken_from(self._clients[name]):
                    heappush(self._returned, (lease.first, lease))
            case {"again": name}:
                client = self._clients.setdefault(name, _Client())
                client.has_finished = False
                pending = self._taken_from(client)
                client.done = Position(client.delivered, 0)
                for lease in pending:
                    self._hand(lease, name, client.delivered + 1)
            case {"ack": name, "at": [delivered, rows]}:
                client = self._clients[name]
                client.kept = client.done if self._keeps else Position(delivered, rows)
                client.done = Position(delivered, rows)
                for number in [one for one in client.held if one <= client.kept.delivered]:
                    del client.held[number]
            case {"resume": name, "at": [delivered, rows]}:
                client = self._clients[name]
                client.has_finished = False
                client.kept = min(client.kept, Position(delivered, rows))
                client.done = Position(delivered, rows)
            case {"finish": name}:
                self._clients[name].has_finished = True
            case {"end": _}:
                self.has_ended = True
            case _:
                raise ValueError(f"not an event: {event!r}")

    def _hand(self, lease: Lease, name: str, number: int) -> None:
        client = self._clients[name]
        client.held[number] = lease
        client.delivered = number

    @staticmethod
    def _taken_from(client: _Client) -> list[Lease]:
        """The leases that are not done, which the client then holds no longer.

        It keeps the rows that are done of one that is done in part: its saved state counts them.
        """
        taken = []
        for number, lease, rows in list(client.pending()):
            if rows:
                client.held[number] = lease.head(rows)
            else:
                del client.held[number]
            taken.append(lease.tail(rows))
        if taken:
            client.delivered += 1  # so that positions before and after this differ
            client.passed_from, client.passed_on = client.done, client.delivered
        return taken

    # The whole, in place of the events that led to it.

    def to_json(self) -> State:
        clients = {
            name: {
                "delivered": one.delivered,
                "done": list(one.done),
                "kept": list(one.kept),
                "held": [[number, *lease.to_json()] for number, lease in one.held.items()],
                "finished": one.has_finished,
                "passed": [one.passed_from, one.passed_on],
            }
            for name, one in self._clients.items()
        }
        return {
            "clients": clients,
            "returned": [lease.to_json() for _, lease in sorted(self._returned)],
            "given": self.given,
            "input": self.input,
            "ended": self.has_ended,
        }

    def _load(self, saved: Any) -> None:
        self.given, self.input, self.has_ended = saved["given"], saved["input"], saved["ended"]
        self._returned = [(lease[0], Lease(*lease)) for lease in saved["returned"]]  # sorted, so a heap
        for name, one in saved["clients"].items():
            held = {number: Lease(*lease) for number, *lease in one["held"]}
            done, kept = Position(*one["done"]), Position(*one["kept"])
            (passed_from, passed_on) = one["passed"]
            self._clients[name] = _Client(
                one["delivered"], done, kept, held, one["finished"], Position(*passed_from), passed_on
            )

    def begin_again(self, now: float) -> None:
        """The service was restarted: clients that lived through it come back until their grace is over."""
        for client in self._clients.values():
            client.connection, client.lost = None, now

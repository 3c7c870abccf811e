"""The stream of a client in mode="split": its part of a pass, which the service divides.

A block is asked for when the one before it was consumed, so that with ack="next" no block counts as
consumed before. When the connection is lost, the client comes back under its name, to another host or to
a service that was started again: it gets what it had not got yet, and nothing that others got.

With ack="state" a connection stays open after the end of its pass, until what was read is consumed, too: its
loss tells the service that this process died.
"""

from __future__ import annotations

import logging
import os
import secrets
import time
from contextlib import suppress
from functools import partial
from weakref import WeakKeyDictionary

from feedline.block import Block
from feedline.errors import ServiceError, UsageError, WorkerDied
from feedline.graph import Context, Node, State, Stream
from feedline.graph.waiting import pause
from feedline.run.channel import Closed
from feedline.run.worker_process import error_of
from feedline.serve.address import path_of
from feedline.serve.client import DEATHS, Connection, linked, story_of
from feedline.serve.positions import Place, place_of, positions_in
from feedline.serve.protocol import Acknowledge, Acknowledged, End, Failed, Finish, Joined, OpenSplit, Refused
from feedline.serve.request import SplitRequest

CLIENT_VARIABLE = "FEEDLINE_CLIENT"
"""The environment variable that names this process to the service."""

_RETURN = 30.0  # seconds in which a service that was lost may be started again
_PAUSE = 0.1  # seconds between two attempts


class SplitStream(Stream):
    def __init__(
        self,
        step: str,
        address: str,
        ack: str,
        name: str,
        request: SplitRequest,
        context: Context,
        state: State,
    ) -> None:
        self._step = step
        self._address = address
        self._request = request
        self._ack = ack
        self._connection: Connection | None = None
        self._place = Place(request.job, "", name, context.epoch)
        self._is_member = False  # has it joined the pass?
        self._after: int | None = None  # the number of the last delivery
        self._deaths_in_a_row = 0
        self._ended = False
        self._saved: tuple[int, int] | None = None
        self._rows = 0  # that the consumer will drop, of what follows
        if state is not None:
            self._restore(state, context)
        elif (consumption := context.services.consumption) is not None and consumption.is_restored:
            # The saved state is of the beginning, where steps do not ask for the state of their input.
            self._after, self._saved = 0, (0, 0)
        self._follower = self._followed(context) if ack == "state" else None

    def _restore(self, state: State, context: Context) -> None:
        told = place_of(state)
        if told is None or told[0].job != self._request.job:
            raise UsageError(
                f"{self._step}: this state was taken from another job. Load it with the same job."
            )
        self._place, self._after = told
        self._is_member = True
        consumption = context.services.consumption
        if consumption is None:
            return
        position = positions_in(consumption.start).get(self._place)
        if position is not None:
            self._rows = position.rows if position.delivered == self._after else 0
            if consumption.is_restored:
                self._saved = position

    def _followed(self, context: Context) -> _Follower:
        consumption = context.services.consumption
        if consumption is None:
            raise UsageError(
                f'{self._step}(ack="state"): this dataset runs in another process, which does not see the '
                'states that are taken.\n  Call distribute after interleave and the like, or use ack="next".'
            )
        key = self._address, self._request.job
        make = partial(_Follower, self._step, self._address, self._request)
        return consumption.follow(key, make)

    def next(self, limit: int) -> Block | None:
        if self._ended:
            return None
        began = time.perf_counter()
        try:
            return self._next()
        finally:
            self.waited += time.perf_counter() - began

    def _next(self) -> Block | None:
        while True:
            try:
                connection = self._joined()
                connection.ask(self._after)
                answer = connection.receive()
                break
            except Closed:
                self._note_death()
        self._deaths_in_a_row = 0
        if isinstance(answer, Failed) and answer.after is None:
            self._disconnect()
            raise error_of(answer.error)
        if isinstance(answer, End):
            self._ended = True
            return None
        self._after, self._rows = int(answer.after), 0
        if isinstance(answer, Failed):
            raise error_of(answer.error)
        return connection.block(answer)

    def _joined(self) -> Connection:
        """A connection to the host of the pass, of which this client is a member."""
        until = time.monotonic() + _RETURN
        while self._connection is None:
            try:
                self._connection = self._join()
            except Closed as lost:  # the service ends just now, or its host did
                if time.monotonic() > until:
                    raise ServiceError(f"{self._step}: the reader service went away.") from lost
                pause(_PAUSE)
            except ServiceError:
                if not self._is_member or time.monotonic() > until:
                    raise
                pause(_PAUSE)
        return self._connection

    def _join(self) -> Connection:
        connection = Connection(linked(self._address, *Connection.KINDS))
        try:
            connection.send(self._request.hello)
            connection.send(self._opening())
            answer = connection.receive()
            if isinstance(answer, Refused):
                raise ServiceError(f"{self._step}: {path_of(self._address)}: {answer.reason}")
            if isinstance(answer, Failed):
                raise error_of(answer.error)
            if not isinstance(answer, Joined):
                raise Closed
        except BaseException:
            connection.close()
            raise
        if answer.is_over and self._after is None:
            logging.getLogger("feedline").warning(
                f"{self._step}: nothing is left of this pass of job {self._place.job!r}: other processes "
                "have been through it.\n"
                "  To go through the data again, give the run a job of its own:  distribute(..., job=NAME)"
            )
        self._is_member = True
        self._place = self._place._replace(generation=answer.generation)
        self._after = answer.after
        self._saved = None
        return connection

    def _opening(self) -> OpenSplit:
        return self._request.opening(
            self._ack,
            self._place,
            _process.token,
            None if self._after is None else (self._after, self._rows),
            self._saved,
        )

    def _note_death(self) -> None:
        host = None if self._connection is None else self._connection.host
        self._disconnect()
        self.deaths += 1
        self._deaths_in_a_row += 1
        if self._deaths_in_a_row == DEATHS:
            self._deaths_in_a_row = 0
            raise WorkerDied(story_of(self._step, self._address, host))

    def state(self) -> State:
        if not self._is_member:
            self._joined()
        assert self._after is not None
        return self._place.state(self._after)

    def close(self) -> None:
        if self._ended and self._follower is not None and self._connection is not None:
            connection, self._connection = self._connection, None
            self._follower.keep(connection)
        self._ended = True
        self._disconnect()

    def _disconnect(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection.close()

    def __del__(self) -> None:
        if hasattr(self, "_connection"):
            self._disconnect()


class _Follower:
    """Acknowledges what was consumed of a job in one iteration."""

    def __init__(self, step: str, address: str, request: SplitRequest) -> None:
        self._step = step
        self._address = address
        self._request = request
        self._connection: Connection | None = None  # of the last stream that has ended

    def keep(self, connection: Connection) -> None:
        self.close()
        self._connection = connection

    def note_state(self, position: State) -> None:
        told: dict[tuple[str, str], list[tuple[tuple[int, ...], int, int]]] = {}
        for place, found in positions_in(position).items():
            if place.job == self._request.job:
                told.setdefault((place.generation, place.client), []).append((place.epoch, *found))
        for (generation, client), positions in told.items():
            self._acknowledge(Acknowledge(self._request.job, generation, client, tuple(positions)))

    def _acknowledge(self, message: Acknowledge) -> None:
        until = time.monotonic() + _RETURN
        while True:
            try:
                connection = Connection(linked(self._address, *Connection.KINDS, Acknowledged))
                try:
                    connection.send(self._request.hello)
                    connection.send(message)
                    answer = connection.receive()
                finally:
                    connection.close()
                break
            except (Closed, ServiceError) as error:
                if time.monotonic() > until:
                    raise ServiceError(
                        f"{self._step}: the reader service could not record this state: "
                        f"{error or 'it is gone'}\n"
                        "  Without that, the state cannot be used. Restart the service, and take it again."
                    ) from error
                pause(_PAUSE)
        if isinstance(answer, Failed):
            raise error_of(answer.error)
        if isinstance(answer, Refused):
            raise ServiceError(f"{self._step}: {path_of(self._address)}: {answer.reason}")

    def note_end(self) -> None:
        if self._connection is not None:
            with suppress(Closed):  # then the service waits for this client until the grace is over
                self._connection.send(Finish())
            self.close()

    def close(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection.close()


class _Process:
    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        self.token = secrets.token_hex(8)
        self.names: WeakKeyDictionary[Node, str] = WeakKeyDictionary()


_process = _Process()
os.register_at_fork(after_in_child=_process.renew)


def client_name(node: Node, rank: int | None) -> str:
    """What the environment calls this process, else its rank, else a name that nobody else has."""
    said = os.environ.get(CLIENT_VARIABLE)
    if said:
        return said
    if rank is not None:
        return f"rank {rank}"
    return _process.names.setdefault(node, f"process {os.getpid()} {secrets.token_hex(4)}")

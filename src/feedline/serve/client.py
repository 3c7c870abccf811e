"""The stream of a client: blocks that a reader service makes, in memory that it shares.

The states are those of the pipeline itself. So when a host dies, another goes on after the last block that
was handed out; and when the service dies, this process can go on by itself.

Blocks are read-only: other clients have the same ones.
"""

from __future__ import annotations

import json
import logging
import os
import select
import socket
import time
from typing import Any
from weakref import WeakSet

import numpy as np

from feedline import frame
from feedline.block import Block
from feedline.column import empty
from feedline.errors import ServiceError, WorkerDied
from feedline.graph import Context, Node, State, Stream
from feedline.graph.waiting import pause
from feedline.run.channel import Channel, Closed
from feedline.run.memory import Borrower
from feedline.run.worker_process import error_of
from feedline.serve.address import AUTO, path_of
from feedline.serve.protocol import (
    Ask,
    AskDeath,
    Death,
    End,
    Failed,
    Joined,
    Lent,
    Link,
    Message,
    Refused,
    Rows,
    Welcome,
    peer_of,
)
from feedline.serve.request import request_for

_AHEAD = 4  # blocks that were asked for
_MOST_LOANS = 8  # blocks that the user may hold; of the next, a copy
DEATHS = 3
"""Of hosts, without a block in between, after which it is given up."""

_CAREFUL = 64  # elements that come one by one after two deaths
_NEWS = 20  # times that the service is asked how a host ended
_PAUSE = 0.1  # seconds in between
_LISTEN = 100  # milliseconds, after which a client that waits looks whether it is still wanted


def connect(address: str, *kinds: type[Message]) -> Link:
    """A link to the service itself. ServiceError when there is none."""
    path = path_of(address)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        sock.connect(path)
        _, uid = peer_of(sock)
        if uid != os.geteuid():
            raise ServiceError(
                f"{path}: the reader service there belongs to another user (uid {uid}), who could run code "
                "in this process.\n  Start one of your own:  feedline serve --socket PATH"
            )
        return Link(Channel(sock), *kinds)
    except OSError as error:
        sock.close()
        raise ServiceError(
            f"{path}: there is no reader service: {error.strerror or error}.\n"
            f"  Start it:  feedline serve --socket {path}\n"
            '  With mode="whole", programs can go on without one:  distribute(..., fallback="local")'
        ) from error
    except BaseException:
        sock.close()
        raise


def linked(address: str, *kinds: type[Message]) -> Link:
    """The same, to one that is started on demand, too."""
    if address != AUTO:
        return connect(address, *kinds)
    from feedline.serve.auto import started

    return started(*kinds)


def story_of(step: str, address: str, host: int | None) -> str:
    """How a host ended, as soon as the service knows."""
    for _ in range(_NEWS if host is not None else 0):
        assert host is not None
        link = linked(address, Death)
        try:
            link.send(AskDeath(host))
            answer, _ = link.receive()
            if answer.story is not None:
                return f"{step}: {answer.story}"
        except Closed:
            break
        finally:
            link.close()
        pause(_PAUSE)
    return f"{step}: the reader service lost the host of this pipeline {DEATHS} times in a row."


class ServedStream(Stream):
    def __init__(
        self, step: str, address: str, node: Node, context: Context, state: State, fallback: str | None
    ) -> None:
        self._step = step
        self._address = address
        self._node = node
        self._context = context
        self._state = state
        self._fallback = fallback
        self._local: Stream | None = None  # once the service is given up
        self._connection: Connection | None = None
        self._host: int | None = None  # the number of the last one
        self._deaths_in_a_row = 0
        self._careful = 0  # elements that are still to come one by one
        self._ended = False

    def next(self, limit: int) -> Block | None:
        if self._local is not None:
            return self._local.next(limit)
        if self._ended:
            return None
        began = time.perf_counter()
        try:
            return self._next()
        except ServiceError as error:
            if self._fallback != "local":
                raise
            logging.getLogger("feedline").warning(
                f"{self._step}: goes on without the reader service, in this process: "
                f"{str(error).splitlines()[0]}"
            )
            self._disconnect()
            self._local = self._context.open(self._node, self._state)
        finally:
            self.waited += time.perf_counter() - began
        return self._local.next(limit)

    def _next(self) -> Block | None:
        while True:
            try:
                if self._connection is None:
                    self._connection = self._connected()
                answer = self._connection.next()
            except Closed:
                self._note_death()
                continue
            break
        self._deaths_in_a_row = 0
        if isinstance(answer, Refused):
            self._disconnect()
            raise ServiceError(f"{self._step}: {path_of(self._address)}: {answer.reason}")
        if answer.after is None:  # it could not be opened
            self._disconnect()
            raise error_of(answer.error)
        self._state = json.loads(answer.after)
        if isinstance(answer, Failed):
            raise error_of(answer.error)
        if isinstance(answer, End):
            self._ended = True
            self._disconnect()
            return None
        block = self._connection.block(answer)
        self._note_progress(block.rows)
        return block

    def _connected(self) -> Connection:
        request = request_for(self._step, self._node, self._context, is_fragile=self._careful > 0)
        connection = Connection(linked(self._address, *Connection.KINDS))
        try:
            connection.send(request.hello)
            connection.send(request.at(self._state))
            for _ in range(1 if self._careful else _AHEAD):
                connection.ask()
        except BaseException:
            connection.close()
            raise
        return connection

    def _note_death(self) -> None:
        """The host is gone, or the service is, which is found out when another host is asked for."""
        host = None if self._connection is None else self._connection.host
        self._disconnect()
        self.deaths += 1
        self._deaths_in_a_row += 1
        if self._deaths_in_a_row > 1:
            self._careful = _CAREFUL  # so that those in front of what it died of are had
        if self._deaths_in_a_row == DEATHS:
            self._deaths_in_a_row = 0
            raise WorkerDied(story_of(self._step, self._address, host))

    def _note_progress(self, rows: int) -> None:
        if self._careful:
            self._careful = max(0, self._careful - rows)
            if not self._careful:
                self._disconnect()  # the next comes in large blocks again

    def _disconnect(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection.close()

    def state(self) -> State:
        return self._state if self._local is None else self._local.state()

    def close(self) -> None:
        self._ended = True
        self._disconnect()
        if self._local is not None:
            self._local.close()

    def __del__(self) -> None:
        if hasattr(self, "_connection"):
            self._disconnect()


class Connection:
    """To one host. Blocks are asked for before they are needed."""

    KINDS = (Refused, Welcome, Lent, Rows, Failed, End, Joined)

    def __init__(self, link: Link) -> None:
        self._link = link
        self._borrower = Borrower(read_only=True)
        self.host: int | None = None
        self._arrival = select.poll()
        self._arrival.register(link.fileno(), select.POLLIN)
        _open.add(self)

    def send(self, message: Message) -> None:
        self._link.send(message)

    def ask(self, after: int | None = None) -> None:
        self._link.send(Ask(tuple(self._borrower.returned()), after))

    def next(self) -> Any:
        """Rows, Failed, End or Refused. One more block is asked for."""
        message = self.receive()
        if isinstance(message, Rows | Failed):
            self.ask()
        return message

    def receive(self) -> Any:
        """The next message that is not about memory."""
        while True:
            while not self._arrival.poll(_LISTEN):
                pause(0)  # nobody may want it any more
            message, fd = self._link.receive()
            if isinstance(message, Lent):
                if fd is None:
                    raise Closed
                self._borrower.learn(message.segment, fd, message.size)
            elif isinstance(message, Welcome):
                self.host = message.host
            else:
                return message

    def block(self, rows: Rows) -> Block:
        memory = self._borrower.borrow(rows.segment, rows.size)
        self._borrower.forget(list(rows.closed))
        if self._borrower.loans > _MOST_LOANS:
            # The user keeps many of them, and the service needs its memory.
            copied = empty(memory.shape, np.dtype(np.uint8))
            copied[...] = memory
            memory = copied
            memory.flags.writeable = False
        return frame.decode(memory).slice(rows.begin, rows.begin + rows.rows)

    def close(self) -> None:
        self._link.close()
        self._borrower.close()


_open: WeakSet[Connection] = WeakSet()


def _leave_to_parent() -> None:
    """In a forked child, which gets a connection of its own at the same state when it reads on."""
    for connection in tuple(_open):
        connection.close()


os.register_at_fork(after_in_child=_leave_to_parent)

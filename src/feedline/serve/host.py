"""A host: a process of the service that runs the pipelines of clients whose functions are the same.

So a crash, an import, or the lock of one program's Python never touches another's. The main thread talks to
clients and never waits for one of them; producers run in threads of their own. A host ends with the service.
"""

from __future__ import annotations

import json
import os
import selectors
import sys
import time
from contextlib import suppress
from typing import Protocol

from feedline.errors import ServiceError, UsageError
from feedline.run.channel import Channel, Closed
from feedline.run.memory import Lender, Supply
from feedline.run.worker import leave, settle
from feedline.serve.limits import Kept
from feedline.serve.pipeline import Pipeline
from feedline.serve.producer import AHEAD, Entry, pickled
from feedline.serve.protocol import (
    Acknowledge,
    Acknowledged,
    Ask,
    End,
    Failed,
    Finish,
    Lent,
    Link,
    Open,
    OpenSplit,
    Report,
    Rows,
    Settle,
    Share,
    Take,
    Welcome,
)
from feedline.serve.rate import Rate
from feedline.serve.split import SplitFeed, Splits
from feedline.serve.window import Reader, Whole

MOST_ASKED = 8
"""Blocks that a client may have asked for and not got."""

_REPORT = 0.5  # seconds from one report to the next
_IDLE_MEMORY = 64 << 20  # bytes
# A function of the user's holds Python's lock; clients should not wait 5 ms for the thread that serves them.
_SWITCH = 0.0005  # seconds


def main(channel: int, last_words: int) -> None:
    sock = settle(channel, last_words)
    sys.setswitchinterval(_SWITCH)
    with suppress(Closed):
        _Host(Channel(sock)).serve()
    leave()


class Feed(Protocol):
    """What a client reads: `Reader` in whole mode, `SplitFeed` in split mode."""

    def ask(self, after: int | None) -> None:
        """The client asks for one more entry; in split mode, after that delivery."""
        ...

    def next(self) -> Entry | None:
        """The entry that follows, with its segment held for the caller; None while it is not made.

        When it may be there, the host is woken and asks again.
        """
        ...

    def close(self) -> None:
        """The client is gone, or has closed its stream."""
        ...


class _Client:
    def __init__(self, link: Link, pid: int, supply: Supply) -> None:
        self.link = link
        self.pid = pid
        self.lender = Lender(supply)
        self.feed: Feed | None = None
        self.outline = ""
        self.asked = 0
        self.elements = Rate()
        self.bytes = Rate()

    def close(self) -> None:
        self.link.close()
        self.lender.close()
        if self.feed is not None:
            self.feed.close()


class _Host:
    def __init__(self, control: Channel) -> None:
        self._service = Link(control, Settle, Take, Share)
        settled, _ = self._service.receive()
        assert isinstance(settled, Settle)
        self._number = settled.host
        self._socket = settled.socket
        self._kept = Kept()
        self._kept.keep(settled.share)
        self._supply = Supply(_IDLE_MEMORY)
        self._wakes = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._clients: dict[int, _Client] = {}  # by descriptor
        self._wholes: dict[str, Whole] = {}  # by key
        self._splits = Splits(jobs_directory(settled.socket), self._kept, self._supply, self._wake)
        self._left = 0  # clients, so far
        self._reported = 0.0
        self._waiting = selectors.DefaultSelector()
        self._waiting.register(self._service, selectors.EVENT_READ)
        self._waiting.register(self._wakes, selectors.EVENT_READ)

    def serve(self) -> None:
        """Until the service closes the channel."""
        while True:
            found = self._waiting.select(_REPORT if self._clients else None)
            for key, _ in found:
                if key.fd == self._service.fileno():
                    self._hear_service()
                elif key.fd in self._clients:
                    self._hear(key.fd, self._clients[key.fd])
                elif key.fd == self._wakes:
                    os.eventfd_read(self._wakes)
            for fd, client in tuple(self._clients.items()):
                if fd in self._clients:
                    self._give(fd, client)
            if time.monotonic() - self._reported >= _REPORT:
                self._report()

    def _wake(self) -> None:
        """From a producer's thread: there is something new."""
        os.eventfd_write(self._wakes, 1)

    def _hear_service(self) -> None:
        message, fd = self._service.receive()
        if isinstance(message, Share):
            self._kept.keep(message)
        elif isinstance(message, Take) and fd is not None:
            self._take(message, fd)

    def _take(self, taken: Take, fd: int) -> None:
        channel = Channel.of(fd)
        client = _Client(Link(channel, Open, OpenSplit, Ask, Finish, Acknowledge), taken.pid, self._supply)
        self._clients[fd] = client
        self._waiting.register(fd, selectors.EVENT_READ)
        with self._ending(fd):
            client.link.send(Welcome(self._number))

    def _hear(self, fd: int, client: _Client) -> None:
        with self._ending(fd):
            message, extra = client.link.receive()
            if extra is not None:
                os.close(extra)
            if isinstance(message, Open) and client.feed is None:
                client.outline = message.outline
                client.feed = self._open(message)
            elif isinstance(message, Ask) and client.asked < MOST_ASKED and client.feed is not None:
                client.asked += 1
                client.lender.take_back(message.returned)
                client.feed.ask(message.after)
            elif isinstance(message, Finish) and isinstance(client.feed, SplitFeed):
                client.feed.finish()
            elif isinstance(message, OpenSplit | Acknowledge) and client.feed is None:
                self._hear_split(client, message)
            else:
                raise Closed

    def _hear_split(self, client: _Client, message: OpenSplit | Acknowledge) -> None:
        try:
            if isinstance(message, Acknowledge):
                self._splits.acknowledge(message)
                client.link.send(Acknowledged())
            else:
                client.outline = message.outline
                client.feed, joined = self._splits.join(message)
                client.link.send(joined)
        except (UsageError, ServiceError, OSError) as error:
            client.link.send(Failed(pickled(error), None))

    def _open(self, asked: Open) -> Feed:
        whole = self._wholes.get(asked.key)
        if whole is None:
            ahead = 0 if asked.is_fragile else AHEAD
            whole = Whole(
                Pipeline(asked.outline, asked.opening, self._kept),
                self._kept,
                self._supply,
                self._wake,
                ahead,
            )
            self._wholes[asked.key] = whole
        return Reader(whole, asked.state)

    def _give(self, fd: int, client: _Client) -> None:
        """What it has asked for, as far as that is there."""
        with self._ending(fd):
            while client.asked and client.feed is not None:
                entry = client.feed.next()
                if entry is None:
                    return
                client.asked -= 1
                self._send(client, entry)

    def _send(self, client: _Client, entry: Entry) -> None:
        if entry.segment is not None:
            segment = entry.segment
            is_new = client.lender.share(segment)
            self._supply.release(segment)  # which was held for us
            assert entry.after is not None
            if is_new:
                client.link.send(Lent(segment.number, segment.size), segment.fd)
            closed = tuple(client.lender.closed())
            where = segment.number, entry.size, entry.begin, entry.rows
            client.link.send(Rows(*where, entry.after, closed))
            client.elements.add(entry.rows)
            client.bytes.add(entry.size)
        elif entry.error is not None:
            client.link.send(Failed(entry.error, entry.after))
        else:
            assert entry.after is not None
            client.link.send(End(entry.after))

    def _ending(self, fd: int) -> _Ending:
        return _Ending(self, fd)

    def end(self, fd: int) -> None:
        """A client is gone, or does not keep to the protocol. Its memory is free."""
        client = self._clients.pop(fd)
        self._waiting.unregister(fd)
        client.close()
        self._left += 1
        for key in [key for key, whole in self._wholes.items() if not whole.producers]:
            del self._wholes[key]
        self._report()

    def _report(self) -> None:
        self._reported = time.monotonic()
        clients = [
            {
                "pid": client.pid,
                "pipeline": client.outline,
                "elements": client.elements.total,
                "elements_per_second": client.elements.per_second(),
                "bytes_per_second": client.bytes.per_second(),
            }
            for client in self._clients.values()
        ]
        pipelines = [
            {"key": key, "pipeline": whole.pipeline.outline, "producers": whole.producers}
            for key, whole in self._wholes.items()
        ]
        self._splits.tick()
        told = {"clients": clients, "pipelines": pipelines, "jobs": self._splits.progress()}
        self._service.send(Report(self._left, json.dumps(told)))


def jobs_directory(socket: str) -> str:
    """Where a service has the journals of its jobs."""
    return f"{socket}.jobs"


class _Ending:
    """Ends one client when its connection does, and nothing else."""

    def __init__(self, host: _Host, fd: int) -> None:
        self._host = host
        self._fd = fd

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        if kind is None or not issubclass(kind, Closed | LookupError | OSError):
            return False
        self._host.end(self._fd)
        return True

"""A host as the service sees it."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from typing import Any

from feedline.run.channel import Be, Closed
from feedline.run.interpreter import Interpreter
from feedline.serve.protocol import Link, Report, Settle, Share, Take


class HostProcess:
    def __init__(self, number: int, key: str, at: Be, socket: str, share: Share) -> None:
        self.number = number
        self.key = key
        self._process = Interpreter("feedline.serve.host", at, os.environ)
        os.set_blocking(self._process.channel.fileno(), False)  # nobody waits for a host that is stuck
        self.link = Link(self._process.channel, Report)
        self._taken = 0  # clients
        self._left = 0
        self.report: dict[str, Any] = {"clients": [], "pipelines": [], "jobs": []}
        self._idle_since = time.monotonic()
        self.link.send(Settle(number, socket, share))

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def clients(self) -> int:
        return self._taken - self._left

    def take(self, pid: int, connection: int) -> None:
        """Hand over a client. Closed when the host is gone."""
        self.link.send(Take(pid), connection)
        self._taken += 1

    def hear(self) -> None:
        """Closed when it is gone."""
        message, fd = self.link.receive()
        if fd is not None:
            os.close(fd)
        self._left = message.left
        self.report = json.loads(message.json)
        if not self.clients:
            self._idle_since = time.monotonic()

    def idle_for(self) -> float:
        """Seconds without a client."""
        return 0.0 if self.clients else time.monotonic() - self._idle_since

    def keep(self, share: Share) -> None:
        with suppress(Closed):  # which is noticed when it is heard
            self.link.send(share)

    def death(self) -> str:
        """How it ended, for the clients that it served."""
        return str(self._process.last_words("distribute", "the host of this pipeline in the reader service"))

    def close(self) -> None:
        self._process.close()

"""The thread that tells for this process that it is alive: to all that must hear of it, claims above all."""

from __future__ import annotations

import os
import threading
from typing import Protocol
from weakref import WeakSet

from feedline.cache import store


class Renewed(Protocol):
    """A claim, or what else ends when its holder is silent."""

    def renew(self) -> None:
        """Raises nothing."""


class _Heartbeat:
    """Its thread runs while there is something to renew. It does not keep it: a claim that Ctrl-C made
    forgotten before it was released must not seem alive, or all would wait for it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._renewed: WeakSet[Renewed] = WeakSet()
        self._thread: threading.Thread | None = None

    def add(self, one: Renewed) -> None:
        with self._changed:
            self._renewed.add(one)
            if self._thread is None:
                thread = threading.Thread(target=self._beat, name="feedline-heartbeat", daemon=True)
                thread.start()
                self._thread = thread

    def remove(self, one: Renewed) -> None:
        with self._changed:
            self._renewed.discard(one)
            self._changed.notify()

    def _beat(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: not self._renewed, store.BEAT)
                if not self._renewed:
                    self._thread = None
                    return
            self._renew()

    def _renew(self) -> None:
        with self._changed:
            renewed = list(self._renewed)
        for one in renewed:
            one.renew()


_heartbeat = _Heartbeat()


def beat(one: Renewed) -> None:
    """Renew it from time to time, until `rest`."""
    _heartbeat.add(one)


def rest(one: Renewed) -> None:
    _heartbeat.remove(one)


def _begin_anew() -> None:
    """In a forked child: the thread is not there, and what it renewed is the parent's."""
    global _heartbeat
    _heartbeat = _Heartbeat()


os.register_at_fork(after_in_child=_begin_anew)

"""The thread that tells for all claims of this process that it is alive."""

from __future__ import annotations

import os
import threading

from feedline.cache import store
from feedline.cache.store import Claim


class _Heartbeat:
    """Its thread runs while there are claims."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._claims: set[Claim] = set()
        self._thread: threading.Thread | None = None

    def add(self, claim: Claim) -> None:
        with self._changed:
            self._claims.add(claim)
            if self._thread is None:
                self._thread = threading.Thread(target=self._beat, name="feedline-heartbeat", daemon=True)
                self._thread.start()

    def remove(self, claim: Claim) -> None:
        with self._changed:
            self._claims.discard(claim)
            self._changed.notify()

    def _beat(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: not self._claims, store.BEAT)
                claims = list(self._claims)
                if not claims:
                    self._thread = None
                    return
            for claim in claims:
                claim.renew()


_heartbeat = _Heartbeat()


def beat(claim: Claim) -> None:
    """Renew the claim from time to time, until `rest`."""
    _heartbeat.add(claim)


def rest(claim: Claim) -> None:
    _heartbeat.remove(claim)


def _begin_anew() -> None:
    """In a forked child: the thread is not there, and the claims are the parent's."""
    global _heartbeat
    _heartbeat = _Heartbeat()


os.register_at_fork(after_in_child=_begin_anew)

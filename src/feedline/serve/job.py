"""A job in mode="split": its passes, one for each epoch, and the journal that outlives the service.

A job has a generation, which saved states name. It ends when all of its passes are complete and nobody
reads. Its journal is removed then, and the next client begins another generation. Within the first
seconds, a process that has not taken part is told that nothing is left: it was started with the others,
only later.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from feedline.errors import UsageError
from feedline.serve.journal import Journal, journal_path
from feedline.serve.leases import Event, Pass, Position
from feedline.serve.protocol import Acknowledge, OpenSplit

RETENTION = 10.0
"""Seconds after the end of a job in which a process that took no part is told that nothing is left."""

_SYNC = 1.0  # seconds after which events reach the disk, where no client waits for that

Epoch: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class Terms:
    """What all clients of a generation agree on."""

    generation: str
    pipeline: str  # its fingerprint
    ack: str
    seeds: tuple[int, ...]  # that the first client drew

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "seeds": list(self.seeds)}


@dataclass
class _Presence:
    """The connections of one process under one name."""

    process: str
    epochs: list[Epoch] = field(default_factory=list)  # of its streams
    at_end: set[Epoch] = field(default_factory=set)  # of streams that have ended, but may not be consumed yet


class Job:
    def __init__(self, name: str, directory: str, now: float) -> None:
        self.name = name
        self._path = journal_path(directory, name)
        self._journal: Journal | None = None
        self._terms: Terms | None = None
        self._passes: dict[Epoch, Pass] = {}
        self._present: dict[str, _Presence] = {}  # by the client's name
        self._took_part: set[tuple[str, Epoch]] = set()  # processes
        self._ended = now  # when the last client left
        self._synced = now
        if os.path.exists(self._path):
            self._journal = Journal(self._path)
            for event in self._journal.events:
                self._apply(event)
            self._journal.events.clear()
            for one in self._passes.values():
                one.begin_again(now)

    @property
    def terms(self) -> Terms:
        assert self._terms is not None
        return self._terms

    # What clients do.

    def join(self, asked: OpenSplit, now: float) -> tuple[Pass, int]:
        """The pass that the client reads, and the number of the delivery after which it goes on."""
        epoch = tuple(asked.epoch)
        if self._terms is None or self._is_for_another_run(asked, now):
            self._begin(asked)
        self._check(asked)
        present = self._present.get(asked.client)
        if present is not None and present.process != asked.process:
            raise UsageError(
                f"distribute: another process is client {asked.client!r} of job {self.name!r}.\n"
                "  Give each process a name of its own, by the environment variable FEEDLINE_CLIENT, or end "
                "the other process."
            )
        if present is not None and epoch in present.at_end:
            present.at_end.discard(epoch)
            self._passes[epoch].leave(asked.client, asked.process, now)
        one = self._pass(epoch)
        saved = None if asked.saved is None else Position(*asked.saved)
        after = one.join(
            asked.client, asked.process, None if asked.at is None else Position(*asked.at), saved
        )
        if saved is not None:
            for later, other in self._passes.items():
                if later > epoch:
                    other.rewind(asked.client)
        self._present.setdefault(asked.client, _Presence(asked.process)).epochs.append(epoch)
        self._took_part.add((asked.process, epoch))
        return one, after

    def _is_for_another_run(self, asked: OpenSplit, now: float) -> bool:
        epoch = tuple(asked.epoch)
        if self._present or asked.generation is not None or not self.is_complete:
            return False
        if (asked.pipeline, asked.ack) != (self.terms.pipeline, self.terms.ack):
            return True
        is_again = (asked.process, epoch) in self._took_part or now > self._ended + RETENTION
        return epoch in self._passes and is_again

    def _check(self, asked: OpenSplit) -> None:
        terms = self.terms
        if asked.generation not in (None, terms.generation):
            raise UsageError(_is_unknown(self.name))
        if asked.pipeline != terms.pipeline:
            raise UsageError(
                f"distribute: job {self.name!r} divides another pipeline among its clients.\n"
                "  Steps, functions and files must be the same in all of them. Give this one another job, "
                f"or, if nobody needs the rest of that pass, remove {self._path}"
            )
        if asked.ack != terms.ack:
            raise UsageError(
                f"distribute(ack={asked.ack!r}): other clients of job {self.name!r} have ack={terms.ack!r}.\n"
                "  Give all clients of a job the same."
            )

    def leave(self, name: str, epoch: Epoch, now: float) -> None:
        """One of its connections has ended."""
        present, one = self._present[name], self._passes[epoch]
        present.epochs.remove(epoch)
        if present.epochs and one.is_at_end(name):
            # The process lives, and may still be at the last elements: a later pass reads on.
            present.at_end.add(epoch)
            return
        one.leave(name, present.process, now)
        if not present.epochs:
            for ended in present.at_end:
                self._passes[ended].leave(name, present.process, now)
            del self._present[name]
        self._may_end(now)

    def finish(self, name: str, epoch: Epoch, now: float) -> None:
        """The client has consumed everything that it got, in this pass and in those before it."""
        present = self._present[name]
        for ended in (*present.at_end, epoch):
            self._passes[ended].leave(name, present.process, now, has_finished=True)
        present.at_end.clear()

    def acknowledge(self, asked: Acknowledge, now: float) -> None:
        if self._terms is None or asked.generation != self.terms.generation:
            raise UsageError(_is_unknown(self.name))
        positions = {tuple(epoch): Position(delivered, rows) for epoch, delivered, rows in asked.positions}
        for epoch, position in positions.items():
            self._pass(epoch).acknowledge(asked.client, position)
        for epoch, one in self._passes.items():
            if epoch not in positions and epoch < max(positions):
                one.acknowledge_all(asked.client)
        if self._journal is not None:
            self._journal.sync()  # the state is saved next, and must never be newer than this
        self._may_end(now)

    # The journal.

    def tick(self, now: float) -> None:
        """Now and then."""
        if self._journal is not None and now > self._synced + _SYNC:
            self._synced = now
            self._journal.sync()

    @property
    def is_complete(self) -> bool:
        return all(one.is_complete for one in self._passes.values())

    def _may_end(self, now: float) -> None:
        if self._present:
            return
        self._ended = now
        if self._journal is not None and not any(one.is_needed for one in self._passes.values()):
            self._journal.remove()
            self._journal = None

    def _begin(self, asked: OpenSplit) -> None:
        self._terms = Terms(secrets.token_hex(8), asked.pipeline, asked.ack, tuple(asked.seeds))
        self._passes.clear()
        self._took_part.clear()
        if self._journal is not None:
            self._journal.replace(self._snapshot())

    def _pass(self, epoch: Epoch) -> Pass:
        one = self._passes.get(epoch)
        if one is None:
            one = self._passes[epoch] = Pass(self.terms.ack, partial(self._record, epoch))
        return one

    def _record(self, epoch: Epoch, event: Event) -> None:
        if self._journal is None:
            self._journal = Journal(self._path)
            self._journal.replace(self._snapshot())
        elif self._journal.has_grown:
            self._journal.replace(self._snapshot())
        self._journal.append({"pass": list(epoch), **event})

    def _snapshot(self) -> dict[str, Any]:
        passes = [[list(epoch), one.to_json()] for epoch, one in self._passes.items()]
        return {"job": self.name, **self.terms.to_json(), "passes": passes}

    def _apply(self, event: Event) -> None:
        if "pass" in event:
            self._pass(tuple(event["pass"])).apply(event)
            return
        told = {**event, "seeds": tuple(event["seeds"])}
        passes = told.pop("passes")
        del told["job"]
        self._terms = Terms(**told)
        self._passes = {
            tuple(epoch): Pass(self.terms.ack, partial(self._record, tuple(epoch)), saved)
            for epoch, saved in passes
        }

    def close(self) -> None:
        with suppress(OSError):
            if self._journal is not None:
                self._journal.close()

    def progress(self) -> dict[str, Any]:
        """For people."""
        passes = [
            {"epoch": list(epoch), **one.progress()} for epoch, one in self._passes.items() if one.is_needed
        ]
        return {"job": self.name, "ack": self.terms.ack if self._terms else None, "passes": passes}


def _is_unknown(job: str) -> str:
    return (
        f"distribute: the service has no record of the pass of job {job!r} that this state is from.\n"
        "  The pass is over, its journal was removed, or another service has it. Begin without the state, or "
        "with another job."
    )

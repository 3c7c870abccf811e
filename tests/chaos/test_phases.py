"""Workers that are killed at a chosen point of their work: what comes is the same, and the death is counted.

The function that is sent to a worker changes feedline there, in the worker's own process, so that it kills
itself at the point in question. A file tells whether one did, so that only one does.
"""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import pytest

from feedline import Dataset, WorkerDied, frame
from feedline.run.channel import Done, Lent
from feedline.run.exchange import Exchange
from tests.processes import deaths_in, dismiss_workers, workers_of


def die():
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)  # the kernel may take a moment


@dataclass
class Fuse:
    """Kills the worker at the `count`th time that it comes to the point; but only one worker."""

    point: str
    flag: str  # a file that is there when it has happened
    owner: int  # the process of the test
    count: int

    def burn(self, point):
        if point != self.point or os.getpid() == self.owner:
            return
        self.count -= 1
        if self.count == 0:
            try:
                os.close(os.open(self.flag, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return
            die()

    def put(self):
        """Into the feedline of this process."""
        decode, write, send = frame.decode, frame.Plan.write, Exchange.send

        def decoding(*arguments):
            self.burn("reading its rows")
            return decode(*arguments)

        def writing(plan, memory):
            write(plan, memory)
            if self.point == "writing its result":
                memory[: len(memory) // 2] = 0xEE
            self.burn("writing its result")
            write(plan, memory)

        def sending(exchange, message, fd=None):
            if isinstance(message, Done):
                self.burn("before it hands over")
            send(exchange, message, fd)
            if isinstance(message, Lent):
                self.burn("handing over memory")
            if isinstance(message, Done):
                self.burn("after it has handed over")

        frame.decode, frame.Plan.write, Exchange.send = decoding, writing, sending
        self.found = decode, write, send

    def take_out(self):
        frame.decode, frame.Plan.write, Exchange.send = self.found


@dataclass
class Fused:
    """A function with a fuse, which is put in where it is unpickled, and taken out when it is forgotten."""

    function: Any
    fuse: Fuse

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.fuse.burn("reading its job")
        self.fuse.put()

    def __del__(self):
        if os.getpid() != self.fuse.owner:
            self.fuse.take_out()

    def __call__(self, *arguments):
        self.fuse.burn("computing")
        return self.function(*arguments)


POINTS = [
    ("reading its job", 1),
    ("reading its rows", 4),
    ("computing", 7),
    ("writing its result", 3),
    ("handing over memory", 3),
    ("before it hands over", 5),
    ("after it has handed over", 1),
    ("after it has handed over", 5),
]


def assert_counted(ds, point):
    """A death is counted when work was lost by it; one that has handed over may have had no other task."""
    assert deaths_in(ds) in ((0, 1) if point == "after it has handed over" else (1,))


def fuse_for(point, count, flag):
    if point == "handing over memory":
        dismiss_workers()  # those from before have memory that they can use again
    return Fuse(point, str(flag), os.getpid(), count)


def growing(number):
    """Large enough that new memory is needed now and then."""
    end = time.perf_counter() + 0.002
    while time.perf_counter() < end:
        pass
    return {"row": np.full(1000 * number, number), "text": "x" * number}


def assert_grown(found, count):
    assert [len(one["text"]) for one in found] == list(range(count))
    for number, one in enumerate(found):
        assert one["row"].shape == (1000 * number,)
        assert (one["row"] == number).all()


@pytest.mark.parametrize(("point", "count"), POINTS)
def test_a_worker_killed_while_it(point, count, tmp_path):
    fuse = fuse_for(point, count, tmp_path / "died")
    ds = Dataset.range(80).map(Fused(growing, fuse), 2)
    assert_grown(list(ds), 80)
    assert (tmp_path / "died").exists()
    assert_counted(ds, point)


def parts(shard):
    for number in range(shard.index, 80, shard.count):
        yield growing(number)


class FusedParts(Fused):
    def __call__(self, shard):
        for element in self.function(shard):
            self.fuse.burn("computing")
            yield element


@pytest.mark.parametrize(("point", "count"), [one for one in POINTS if one[0] != "reading its rows"])
def test_a_worker_killed_while_its_generator(point, count, tmp_path):
    fuse = fuse_for(point, count, tmp_path / "died")
    ds = Dataset.from_generator(FusedParts(parts, fuse), workers=2)
    assert_grown(list(ds), 80)
    assert (tmp_path / "died").exists()
    assert_counted(ds, point)


def numbers(shard):
    yield from range(shard.index, 40, shard.count)


@pytest.mark.parametrize(
    "ds",
    [Dataset.range(40).map(lambda x: x, 2), Dataset.from_generator(numbers, workers=2)],
    ids=["map", "generator"],
)
def test_workers_killed_while_they_have_nothing_to_do(ds):
    dismiss_workers()
    list(ds)
    for pid in workers_of(os.getpid()):
        os.kill(pid, signal.SIGKILL)
    assert [int(x) for x in ds] == list(range(40))


def test_workers_killed_while_the_consumer_is_busy():
    """They have done what they were asked for, and nobody has looked."""
    dismiss_workers()
    rows = iter(ds := Dataset.range(60).map(growing, 2))
    found = list(islice(rows, 20))
    time.sleep(0.5)
    for pid in workers_of(os.getpid()):
        os.kill(pid, signal.SIGKILL)
    found.extend(rows)
    assert_grown(found, 60)
    assert deaths_in(ds) in (1, 2)  # one that had not begun yet, or had nothing to do, is not missed


def dying(x):
    if x == 21:
        die()
    return x


def dying_parts(shard):
    for number in range(shard.index, 40, shard.count):
        yield dying(number)


@pytest.mark.parametrize("kind", ["map", "generator"])
def test_a_death_that_repeats_is_told(kind):
    mapped, generated = Dataset.range(40).map(dying, 2), Dataset.from_generator(dying_parts, workers=2)
    ds = mapped if kind == "map" else generated
    rows = iter(ds)
    assert [int(x) for x in islice(rows, 21)] == list(range(21))
    with pytest.raises(WorkerDied, match="went away with signal SIGKILL") as caught:
        next(rows)
    told = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
    assert f"added at {__file__}:" in told
    assert "Perhaps it took more memory than there is." in told
    if kind == "map":
        assert "at element 21 of its input" in told
    assert deaths_in(ds) >= 2

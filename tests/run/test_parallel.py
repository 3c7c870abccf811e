"""How many rows are sent at a time, and whether more places pay: of a part as of the whole that it is of."""

from __future__ import annotations

import os
import time

import pytest

from feedline import AUTOTUNE, Dataset
from feedline.graph import Context, Cursor
from feedline.graph.job import Outcome
from feedline.graph.span import Span
from feedline.run.parallel import Parallel
from feedline.run.services import LocalServices


class Sent:
    """Rows that were done at once, and took 1 ms each."""

    is_over = True

    def __init__(self, rows):
        self._rows = rows
        self.seconds = 0.001 * rows.rows

    def wait(self):
        return Outcome(self._rows)


class Team:
    def __init__(self):
        self.size = 2
        self.sizes = []

    def send(self, rows, first):
        self.sizes.append(rows.rows)
        return Sent(rows)

    def close(self, wait=True):
        pass


@pytest.mark.parametrize(("begin", "end"), [(0, 2000), (0, 1000), (400, 1400), (1000, 2000)])
def test_tasks_become_smaller_towards_the_end_of_what_is_asked_for(begin, end):
    team, context = Team(), Context(LocalServices())
    rows = Cursor(context, Span(Dataset.range(2000)._node, begin, end), [None, 0, begin])
    parallel = Parallel("step", team, rows, context)
    done = [number for one in iter(parallel.next, None) for number in one.results]
    assert done == list(range(begin, end))
    usual = max(team.sizes)
    assert usual > 50
    assert max(team.sizes[-3:]) <= usual // 4


def test_a_part_goes_on_with_workers_where_the_whole_is_worth_them():
    def slow(x):
        time.sleep(0.005)
        return os.getpid()

    part = Span(Dataset.range(1000).map(slow, AUTOTUNE)._node, 500, 600)
    rows = Cursor(Context(LocalServices()), part)
    try:
        found = [int(pid) for block in rows.collect(1 << 20) for pid in block]
    finally:
        rows.close()
    assert len(found) == 100
    assert found[0] == os.getpid()
    assert found[-1] != os.getpid()

"""Threads that call a function: they can be ended by anyone."""

from __future__ import annotations

import threading

import numpy as np

from feedline import Dataset
from feedline.block import Block
from feedline.graph.calls import Collector
from feedline.run.threads import ThreadTeam


def test_a_team_may_be_closed_by_one_of_its_own_threads():
    """As when that thread, collecting garbage, is the one that finds its reader forgotten."""

    class Closing:
        def run(self, rows, first, is_over):
            team.close()
            return Collector("map"), None

    team = ThreadTeam(Closing(), 2)
    ticket = team.send(Block.from_elements([np.int64(1)]), 0)
    assert ticket.wait().error is None


def test_who_drops_an_iterator_does_not_wait_for_its_threads():
    """That may happen in the midst of a thread's start, which then could never end."""
    dropped = threading.Event()

    def function(x):
        return x if x == 0 else (dropped.wait(), x)[1]

    rows = iter(Dataset.range(9).map(function, 2, executor="thread"))
    assert next(rows) == 0
    del rows
    dropped.set()

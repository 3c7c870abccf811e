"""Threads that call a function: they can be ended by anyone."""

from __future__ import annotations

import numpy as np

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

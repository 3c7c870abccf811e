"""The examples that share a cache, the one in Redis with a real server."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cache.redis_server import running

EXAMPLES = Path(__file__).parents[2] / "examples"


def printed(name, *arguments):
    command = [sys.executable, EXAMPLES / f"{name}.py", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


def computed(text):
    """The sums, and how many elements each run computed."""
    found = re.findall(r"sum (\S+), of \d+ elements computed here: (\d+)", text)
    return {total for total, _ in found}, [int(count) for _, count in found]


def test_runs_that_start_at_once_compute_each_element_once():
    totals, counts = computed(printed("runs_share_a_cache"))
    assert len(totals) == 1
    assert sum(counts[:3]) == 600
    assert counts[3] == 0


def test_runs_may_have_a_cache_each():
    lines = printed("cache_per_run").splitlines()
    assert lines[:2] == ["first: 7,992,000", "second: 7,992,000"]
    assert [line.partition(" in ")[0] for line in lines[2:]] == [
        "first: 1,000 elements",
        "second: 1,000 elements",
    ]


@pytest.mark.parametrize("places", [[], ["blobs"]])
def test_runs_of_several_hosts_have_a_cache_in_redis(tmp_path, places):
    with running(tmp_path) as server:
        arguments = [server.url, *(str(tmp_path / place) for place in places)]
        first, again = (computed(printed("cache_in_redis", *arguments)) for _ in range(2))
    assert first[0] == again[0]
    assert (first[1], again[1]) == ([2000], [0])

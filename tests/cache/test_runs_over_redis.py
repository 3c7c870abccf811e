"""Whole runs over a cache in a real Redis: several at once, and with the server lost in the middle."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager

import pytest

from feedline import CacheError, Dataset
from feedline.cache import filling
from tests.cache.redis_server import running

RUN = """
import sys, time
from feedline import Dataset

def slow(x):
    with open(sys.argv[2], "ab", buffering=0) as log:
        log.write(b"x")
    time.sleep(0.002)
    return x * x

source = Dataset.range(300)
if sys.argv[3] == "streamed":
    source = source.filter(lambda x: True)
print(sum(int(x) for x in source.map(slow).cache(sys.argv[1], version="1")))
"""


@pytest.mark.parametrize("kind", ["indexed", "streamed"])
def test_runs_at_once_compute_each_element_once(kind, tmp_path):
    log = tmp_path / "computed"
    with running(tmp_path) as server:
        command = [sys.executable, "-c", RUN, server.url, str(log), kind]
        runs = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
        sums = {int(run.communicate(timeout=200)[0]) for run in runs}
    assert sums == {sum(x * x for x in range(300))}
    assert log.stat().st_size == 300


@contextmanager
def lost_in_the_middle(tmp_path, monkeypatch, **options):
    """An iteration whose server is gone after its first elements, and with parts still to be made."""
    monkeypatch.setattr(filling, "PART_BYTES", 800)
    with running(tmp_path) as server:
        rows = iter(Dataset.range(1000).cache(server.url, **options))
        found = [int(next(rows)) for _ in range(5)]
        server.kill()
        with rows:
            yield found, rows


def test_a_server_that_is_lost_in_the_middle_is_an_error_that_says_what_to_do(tmp_path, monkeypatch):
    with (
        lost_in_the_middle(tmp_path, monkeypatch) as (_, rows),
        pytest.raises(CacheError, match=r'(?s)redis-server running.*on_unavailable="compute"'),
    ):
        list(rows)


def test_or_the_run_goes_on_without_it_with_one_warning(tmp_path, monkeypatch):
    with lost_in_the_middle(tmp_path, monkeypatch, on_unavailable="compute") as (found, rows):
        with pytest.warns(RuntimeWarning, match="goes on without this cache") as caught:
            found += map(int, rows)
        assert len(caught) == 1
    assert found == list(range(1000))


def test_a_run_that_starts_without_the_server_may_go_on_without_it(tmp_path):
    with running(tmp_path) as server:
        server.kill()
        with pytest.warns(RuntimeWarning, match="goes on without this cache"):
            assert len(list(Dataset.range(50).cache(server.url, on_unavailable="compute"))) == 50
        with pytest.raises(CacheError, match="cannot be reached"):
            list(Dataset.range(50).cache(server.url))

"""Hosts that die: another goes on at the same element, and what kills every host is told with its reason."""

from __future__ import annotations

import os
import signal
import sys

import numpy as np
import pytest

from feedline import Dataset, WorkerDied
from tests.processes import comes_true, is_there
from tests.serve.serving import lines_of


def test_a_killed_host_changes_nothing(service):
    rows = iter(
        Dataset.range(3000).map(lambda x: {"x": x, "text": f"{x}"}).batch(3).distribute(service.address)
    )
    found = []
    for number, batch in enumerate(rows):
        found += batch["x"].tolist()
        if number in (5, 300, 700):
            (host,) = service.hosts
            os.kill(host, signal.SIGKILL)
            assert comes_true(lambda: not is_there(host))  # noqa: B023
    assert found == list(range(3000))


def test_an_element_that_kills_a_host_once_is_computed_again(service, tmp_path):
    died = tmp_path / "died"

    def fragile(x):
        if x == 40 and not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGSEGV)
        return x

    assert [int(x) for x in Dataset.range(100).map(fragile).distribute(service.address)] == list(range(100))


@pytest.mark.parametrize(
    ("end", "how"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), "signal SIGSEGV"),
        (lambda: os._exit(3), "exit code 3"),
    ],
    ids=["segfault", "exit"],
)
def test_an_element_that_kills_every_host_is_an_error_after_those_before_it(end, how, service, tmp_path):
    log = tmp_path / "log"

    def fragile(x):
        if x == 40:
            with open(log, "a") as file:
                file.write("died\n")
            print("about to die", file=sys.stderr, flush=True)
            end()
        return x

    found = []
    with pytest.raises(WorkerDied, match=how) as caught:
        take_all(Dataset.range(100).map(fragile).distribute(service.address), found)
    assert found == list(range(40))
    assert "about to die" in str(caught.value)
    assert "distribute, added at" in str(caught.value)
    assert len(lines_of(log)) <= 8


def take_all(ds, found):
    for element in ds:
        found.append(int(element))


def test_a_death_in_one_program_does_not_touch_another(service):
    def deadly(x):
        os._exit(1)

    other = iter(Dataset.range(2000).map(lambda x: np.full(10, x)).distribute(service.address))
    assert next(other)[0] == 0
    with pytest.raises(WorkerDied):
        next(iter(Dataset.range(3).map(deadly).distribute(service.address)))
    assert [int(one[0]) for one in other] == list(range(1, 2000))


def test_a_worker_of_a_host_that_dies_is_replaced(service, tmp_path):
    died = tmp_path / "died"

    def fragile(x):
        if x == 40 and not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return x

    assert [int(x) for x in Dataset.range(100).map(fragile, 2).distribute(service.address)] == list(
        range(100)
    )
    assert len(service.hosts) == 1

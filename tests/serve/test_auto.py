"""unix:auto: one service for all programs of a user, there when it is needed and gone when it is not."""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile

import pytest

from feedline import Dataset, ServiceError
from feedline.serve.auto import IDLE_VARIABLE, directory, socket_path
from feedline.serve.status import ask_status
from tests.processes import comes_true, is_there
from tests.serve.serving import is_serving, lines_of, run_clients


@pytest.fixture
def runtime(monkeypatch):
    """A directory of its own for the service, which ends after two seconds."""
    path = tempfile.mkdtemp(prefix="fl-")
    monkeypatch.setenv("XDG_RUNTIME_DIR", path)
    monkeypatch.setenv(IDLE_VARIABLE, "2")
    yield path
    address = f"unix:{socket_path()}"
    pid = ask_status(address)["pid"] if is_serving(address) else None
    assert comes_true(lambda: not is_serving(address))
    assert comes_true(lambda: pid is None or not is_there(pid))
    assert comes_true(lambda: os.listdir(directory()) == [])  # its lock is the last to go
    shutil.rmtree(path)


CLIENT = """
import sys
import feedline as fl
from tests.serve.counting import counted

ds = fl.Dataset.range(200).map(counted(sys.argv[1])).batch(10).distribute("unix:auto")
print([int(batch.sum()) for batch in ds])
"""


def test_programs_that_start_at_the_same_moment_share_one_service(runtime, tmp_path):
    log = tmp_path / "log"
    printed = run_clients(CLIENT, 4, log)
    wanted = [sum(range(begin, begin + 10)) for begin in range(0, 200, 10)]
    assert [json.loads(one) for one in printed] == [wanted] * 4
    assert len(set(lines_of(log))) == 1  # process


def test_a_service_that_was_killed_is_started_again(runtime):
    rows = iter(Dataset.range(20_000).map(lambda x: x).distribute("unix:auto"))
    first = int(next(rows))
    os.kill(ask_status(f"unix:{socket_path()}")["pid"], signal.SIGKILL)
    assert [first, *(int(x) for x in rows)] == list(range(20_000))


def test_a_service_that_ended_because_it_was_idle_is_started_again(runtime):
    for _ in range(2):
        assert [int(x) for x in Dataset.range(5).distribute("unix:auto")] == [0, 1, 2, 3, 4]
        assert comes_true(lambda: not is_serving(f"unix:{socket_path()}"))


def test_a_directory_that_others_can_use_is_refused(runtime):
    path = directory()
    os.chmod(path, 0o755)
    with pytest.raises(ServiceError, match="only you can use"):
        next(iter(Dataset.range(3).distribute("unix:auto")))
    os.chmod(path, 0o700)


def test_without_a_runtime_directory_the_temporary_one_is_used(runtime, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/nowhere/at/all")
    monkeypatch.setattr(tempfile, "tempdir", runtime)
    assert directory() == os.path.join(runtime, f"feedline-{os.geteuid()}")


def test_a_service_that_cannot_be_started_is_told_with_its_reason(runtime):
    os.mkdir(socket_path())
    try:
        with pytest.raises(ServiceError, match="not a socket"):
            next(iter(Dataset.range(3).distribute("unix:auto")))
    finally:
        os.rmdir(socket_path())

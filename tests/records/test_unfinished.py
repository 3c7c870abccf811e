"""A reader that finds no files is told of the set that a ShardedWriter has not finished."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess

import pytest

from feedline import Dataset, ShardedWriter, UsageError, records
from tests.processes import run_python

KILLED = """
import os, signal, sys, feedline as fl
writer = fl.ShardedWriter(sys.argv[1], prefix=sys.argv[2], resume=len(sys.argv) > 3)
with writer.producer("a") as producer:
    producer.write(b"x", key=1)
print(os.getpid(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def killed(directory, prefix="data", *resume):
    ended = run_python(KILLED, str(directory), prefix, *resume)
    assert ended.returncode == -signal.SIGKILL
    return int(ended.stdout)


def told(read, files):
    with pytest.raises(UsageError) as caught:
        read(files)
    return str(caught.value)


@pytest.mark.parametrize("read", [records.resolve, records.count, records.read, Dataset.from_tfrecords])
def test_readers_are_told_who_began_a_set_and_how_to_complete_it(tmp_path, read):
    pid = killed(tmp_path / "set")
    said = told(lambda files: list(read(files)), str(tmp_path / "set"))
    assert "the directory holds no files" in said
    assert f"never committed, by process {pid} (-c) on {os.uname().nodename} since 20" in said
    assert f"ShardedWriter({str(tmp_path / 'set')!r}, resume=True)" in said
    with ShardedWriter(tmp_path / "set", resume=True) as writer:
        assert writer.producer("a").count == 1
    assert records.count(tmp_path / "set") == 1


def test_the_command_in_the_message_removes_it(tmp_path):
    killed(tmp_path / "a set", "it's")
    said = told(records.resolve, tmp_path / "a set")
    assert f'ShardedWriter({str(tmp_path / "a set")!r}, prefix="it\'s", resume=True)' in said
    command = said.rpartition("To remove it:")[2]
    subprocess.run(shlex.split(command), check=True, timeout=20)
    assert "ShardedWriter" not in told(records.resolve, tmp_path / "a set")


def test_a_run_that_was_resumed_and_killed_again_is_that_of_the_last_writer(tmp_path):
    killed(tmp_path)
    last = killed(tmp_path, "data", "resume")
    assert f"by process {last} " in told(records.resolve, tmp_path)


def test_a_writer_at_work_is_named_and_nobody_is_told_to_remove_its_set(tmp_path):
    with ShardedWriter(tmp_path) as writer:
        writer.write(b"x")
        said = told(records.resolve, tmp_path)
        assert f"process {os.getpid()} " in said
        assert "when that writer has committed it" in said
        assert "rm -r" not in said
    assert records.count(tmp_path) == 1


def test_a_pattern_without_a_match_tells_of_it_too(tmp_path, monkeypatch):
    killed(tmp_path)
    assert "resume=True" in told(records.resolve, str(tmp_path / "*.tfrecord"))
    monkeypatch.chdir(tmp_path)
    assert "ShardedWriter('.', resume=True)" in told(records.resolve, "*.tfrecord")
    assert "resume=True" not in told(records.resolve, "nowhere/*.tfrecord")


def test_a_set_that_was_committed_before_is_read(tmp_path):
    with ShardedWriter(tmp_path) as writer:
        writer.write(b"old")
    killed(tmp_path)
    assert list(records.read(tmp_path)) == [b"old"]


def test_a_run_without_a_signature_is_told_by_its_time(tmp_path):
    killed(tmp_path)
    (run,) = tmp_path.glob(".data.writing-*")
    (run / "writer").unlink()
    assert "by a writer that was there at 20" in told(records.resolve, tmp_path)

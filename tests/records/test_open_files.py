"""open_files: the limit of the process, the budgets of pipelines, and what workers get of them."""

from __future__ import annotations

import os
import pickle
import resource
import subprocess
import sys
import time

import pytest

from feedline._native import frame
from feedline.records import open_files, read
from feedline.records.blocks import BlockSource
from feedline.records.open_files import FileBudget

OPTIONS = {"rows": 64, "threads": 1, "compression": "auto", "verify": True, "skip": False}
LARGE = frame(b"x" * 200_000) * 3  # more than is read at once


class Crew:
    is_open = True


def python(code, *arguments):
    ran = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False, timeout=60
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.split()


@pytest.mark.parametrize(("descriptors", "files"), [(64, 32), (1024, 256), (4096, 256)])
def test_the_default_leaves_half_of_the_descriptors_to_the_program(descriptors, files):
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < descriptors:
        pytest.skip(f"this user may not have {descriptors:,} descriptors")
    code = (
        "import resource, sys; n = int(sys.argv[1]); resource.setrlimit(resource.RLIMIT_NOFILE, (n, n))\n"
        "from feedline.records import open_files; print(open_files.limit())"
    )
    assert python(code, str(descriptors)) == [str(files)]


def test_a_lower_limit_closes_files_at_once(tmp_path):
    code = """
import os, sys
from feedline.records import open_files, read
iterators = [read(f"{sys.argv[1]}/{i}") for i in range(5)]
first = [next(iterator) for iterator in iterators]
print(open_files.open_now())
open_files.set_limit(2)
print(open_files.open_now(), open_files.limit(), open_files.most_open())
print(sum(len(list(iterator)) for iterator in iterators), open_files.open_now(), open_files.most_open())
"""
    for i in range(5):
        (tmp_path / str(i)).write_bytes(LARGE)
    assert python(code, str(tmp_path)) == ["5", "2", "2", "5", "10", "0", "5"]


@pytest.mark.parametrize("files", [0, -1])
def test_one_file_at_least_must_be_open(files):
    with pytest.raises(ValueError, match="one file at least"):
        open_files.set_limit(files)


def test_workers_take_their_shares_from_the_process_and_give_them_back():
    code = """
from feedline import _native
from feedline.records import open_files
open_files.set_limit(16)
share = open_files.share_of_worker(4)
open_files.lend([share] * 4)
print(share, _native.FileBudget.process().limit, open_files.limit())
open_files.set_limit(20)
print(_native.FileBudget.process().limit)
open_files.lend([])
print(_native.FileBudget.process().limit)
print(open_files.share_of_worker(1000))
"""
    assert python(code) == ["2", "8", "16", "12", "20", "1"]


def test_a_budget_is_divided_once_between_this_process_and_one_crew_of_workers():
    budget, crew, other = FileBudget(8), Crew(), Crew()
    assert budget.native.limit == 8
    assert budget.workers_for(crew, 3) == 3
    assert budget.native.limit == 2
    assert pickle.loads(pickle.dumps(budget)).native.limit == 2
    assert budget.workers_for(crew, 5) == 3
    assert budget.workers_for(other, 2) == 0  # while the first is at work
    crew.is_open = False
    assert budget.workers_for(other, 2) == 2
    assert budget.native.limit == 2


def test_no_more_workers_read_than_there_are_files_for():
    budget = FileBudget(3)
    assert budget.workers_for(Crew(), 10) == 2
    assert budget.native.limit == 1
    assert FileBudget(1).workers_for(Crew(), 10) == 0


def test_streams_of_one_pipeline_share_one_budget_in_a_worker():
    budget, other = FileBudget(8), FileBudget(8)
    pickled = pickle.dumps(budget)
    assert pickle.loads(pickled) is pickle.loads(pickled)
    assert pickle.loads(pickle.dumps(other)) is not pickle.loads(pickled)


def test_pipes_keep_their_places_and_the_error_says_what_to_do(tmp_path):
    pipe, path = str(tmp_path / "pipe"), tmp_path / "a"
    path.write_bytes(frame(b"a"))
    os.mkfifo(pipe)
    budget = FileBudget(1)
    waiting = BlockSource([pipe], None, shared=True, budgets=[budget], **OPTIONS)  # for a writer
    until = time.monotonic() + 60
    while not budget.native.open:
        assert time.monotonic() < until
        time.sleep(0.01)
    source = BlockSource([str(path)], None, budgets=[budget], **OPTIONS)
    with pytest.raises(
        OSError, match=r"limit of 1 open file is used up by pipes.*Raise max_open_files"
    ) as said:
        source.next()
    assert said.value.filename == str(path)
    waiting.close()
    assert budget.native.open == 0
    assert len(BlockSource([str(path)], None, budgets=[budget], **OPTIONS).next()) == 1


def test_a_relative_path_is_the_same_file_after_the_program_changes_its_directory(tmp_path, monkeypatch):
    (tmp_path / "a").write_bytes(LARGE)
    (tmp_path / "b").write_bytes(LARGE)
    monkeypatch.chdir(tmp_path)
    before = open_files.limit()
    open_files.set_limit(1)
    try:
        records = read("a")
        first = next(records)
        monkeypatch.chdir("/")
        assert len(list(read(tmp_path / "b"))) == 3  # which closes the other
        assert [first, *records] == [b"x" * 200_000] * 3
    finally:
        open_files.set_limit(before)

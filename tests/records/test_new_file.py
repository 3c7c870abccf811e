"""A file that appears when it is complete."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest

from feedline import WriteError
from feedline.records.new_file import NewFile


def test_it_appears_with_all_that_was_written(tmp_path):
    path = tmp_path / "a"
    with NewFile(path) as file:
        file.write(b"ab")
        file.write(memoryview(b"cd"))
        assert not path.exists()
    assert path.read_bytes() == b"abcd"
    assert os.listdir(tmp_path) == ["a"]


def test_a_failed_block_leaves_what_was_there(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"before")
    with suppress(ZeroDivisionError), NewFile(path) as file:
        file.write(b"after")
        raise ZeroDivisionError
    assert path.read_bytes() == b"before"
    assert os.listdir(tmp_path) == ["a"]


def test_what_a_dead_writer_left_is_removed_and_a_living_one_is_left_alone(tmp_path):
    dead = NewFile(tmp_path / "a")
    os.close(dead.fd)
    dead.fd = -1
    living, other = NewFile(tmp_path / "a"), NewFile(tmp_path / "b")
    assert len(os.listdir(tmp_path)) == 2
    living.write(b"x")
    living.commit()
    other.abort()
    assert os.listdir(tmp_path) == ["a"]


def test_a_writer_whose_hidden_file_was_removed_does_not_publish_that_of_another(tmp_path):
    first = NewFile(tmp_path / "a")
    (hidden,) = os.listdir(tmp_path)
    (tmp_path / hidden).unlink()
    second = NewFile(tmp_path / "a")
    second.write(b"half of it")
    with pytest.raises(WriteError, match="removed its hidden file"):
        first.commit()
    first.abort()
    assert os.listdir(tmp_path) == [hidden]
    second.abort()


def test_it_is_a_file_of_the_usual_mode(tmp_path):
    with NewFile(tmp_path / "a"):
        pass
    (tmp_path / "b").touch()
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


def test_a_path_without_a_directory_is_in_the_current_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with NewFile("a") as file:
        file.write(b"x")
    assert Path("a").read_bytes() == b"x"


def test_a_device_is_never_replaced():
    with pytest.raises(WriteError, match="no regular file"):
        NewFile("/dev/null")

import gzip
import os

import pytest

from feedline import Dataset
from feedline.records.known_indexes import load_index
from tests.records.corrupt import flip


def test_index_writes_a_hidden_index_for_each_file_and_prints_a_line_for_it(feedline, write, tmp_path):
    few, many = write("few.tfrecord", [b"x"] * 2), write("many.tfrecord", [b"x"] * 1500)
    ran = feedline("index", few, many)
    assert [line.split() for line in ran.out.splitlines()] == [
        ["2", "34", "bytes", few],
        ["1,500", "25.5", "kB", many],
    ]
    assert ran.err == "2 files indexed, 1,502 records, 25.5 kB.\n"
    assert ran.code == 0
    assert sorted(os.listdir(tmp_path)) == [
        ".few.tfrecord.flindex",
        ".many.tfrecord.flindex",
        "few.tfrecord",
        "many.tfrecord",
    ]
    assert len(Dataset.from_tfrecords([few, many])) == 1502


def test_index_takes_directories_and_globs_and_leaves_indexes_out(feedline, write, tmp_path):
    paths = [write("a.tfrecord", [b"x"]), write("b.tfrecord", [])]
    told = [{"path": paths[0], "records": 1, "bytes": 17}, {"path": paths[1], "records": 0, "bytes": 0}]
    for files in (tmp_path, tmp_path / "*", tmp_path):
        assert feedline("index", "--json", files).lines() == told


def test_index_leaves_an_index_that_fits_as_it_is(feedline, write, tmp_path):
    path = write("a.tfrecord", [b"x"])
    feedline("index", path)
    before = (tmp_path / ".a.tfrecord.flindex").stat()
    feedline("index", path)
    assert (tmp_path / ".a.tfrecord.flindex").stat().st_ino == before.st_ino


def test_index_writes_one_index_for_many_files_of_a_directory(feedline, write, tmp_path):
    paths = [write(f"{number:02}.tfrecord", [b"x"] * number) for number in range(64)]
    ran = feedline("index", tmp_path)
    assert len(ran.out.splitlines()) == 64
    assert ran.err == f"64 files indexed, {sum(range(64)):,} records, 34.3 kB.\n"
    assert sorted(os.listdir(tmp_path))[:2] == [".flindex", "00.tfrecord"]
    assert len(Dataset.from_tfrecords(tmp_path)) == sum(range(64))
    write("64.tfrecord", [b"x"])
    ran = feedline("index", "--json", tmp_path)
    assert ran.lines()[-2:] == [
        {"path": paths[-1], "records": 63, "bytes": 1071},
        {"path": str(tmp_path / "64.tfrecord"), "records": 1, "bytes": 17},
    ]


def test_index_tells_which_files_it_could_not_index_and_why(feedline, write, tmp_path):
    good = write("good.tfrecord", [b"x"])
    zipped = tmp_path / "zipped.tfrecord.gz"
    with open(good, "rb") as file:
        zipped.write_bytes(gzip.compress(file.read()))
    damaged = tmp_path / "damaged.tfrecord"
    with open(good, "rb") as file:
        damaged.write_bytes(flip(file.read(), 3))
    ran = feedline("index", zipped, good, damaged)
    lines = ran.out.splitlines()
    assert len(lines) == 3
    assert f"{zipped}: a compressed file has no index" in lines[0]
    assert lines[1].endswith(good)
    assert lines[2].lstrip().startswith("not indexed")
    assert f"{damaged}: record 0 at byte 0 is corrupt" in lines[2]
    assert ran.err == "1 file indexed, 1 record, 17 bytes; 2 files not indexed.\n"
    assert ran.code == 1
    told = feedline("index", "--json", zipped, good).lines()
    assert [sorted(one) for one in told] == [["error", "path"], ["bytes", "path", "records"]]
    assert "without compression" in told[0]["error"]
    assert load_index(good) is not None


def test_index_that_cannot_be_written_is_told(feedline, write, monkeypatch):
    def replace(source, target):
        raise OSError(28, "No space left on device")

    path = write("a.tfrecord", [b"x"])
    monkeypatch.setattr(os, "replace", replace)
    ran = feedline("index", path)
    assert ran.code == 1
    assert ".a.tfrecord.flindex: No space left on device" in ran.out


@pytest.mark.parametrize("json", [[], ["--json"]])
def test_index_of_a_file_that_is_not_there_is_misuse(feedline, tmp_path, json):
    ran = feedline("index", *json, tmp_path / "no.tfrecord")
    assert ran.code == 2
    assert "no.tfrecord" in ran.err

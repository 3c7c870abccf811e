"""A set of files that another takes the place of while it is read: nobody gets records of both."""

from __future__ import annotations

import os
import threading
from itertools import islice

import pytest

from feedline import Dataset, ShardedWriter, UsageError, records
from feedline.records import publishing, shard_files
from feedline.records.shard_files import read_manifest

SHARDS, RECORDS, SIZE = 48, 16, 16_384  # more than is read ahead
REPLACED = "The set was replaced while you were reading it"


def write(directory, letter, shards=SHARDS):
    with ShardedWriter(directory, shards=shards) as writer:
        for _ in range(SHARDS):
            writer.write_batch([letter * SIZE] * RECORDS)


def letters(rows):
    """Of records, until they end or fail; and how they failed."""
    found = []
    try:
        for row in rows:
            found.append(row[:1])
    except UsageError as error:
        return found, str(error)
    return found, None


@pytest.mark.parametrize("shards", [SHARDS, SHARDS // 2, 2 * SHARDS])
@pytest.mark.parametrize("read", [Dataset.from_tfrecords, records.read], ids=["dataset", "records"])
def test_reading_on_is_refused(read, shards, tmp_path):
    write(tmp_path, b"a")
    rows = iter(read(tmp_path))
    assert [row[:1] for row in islice(rows, 3)] == [b"a"] * 3
    write(tmp_path, b"b", shards)
    found, error = letters(rows)
    assert set(found) == {b"a"}
    assert len(found) < SHARDS * RECORDS - 3
    assert REPLACED in error


def test_so_is_it_when_the_old_set_had_a_visible_manifest(tmp_path):
    write(tmp_path, b"a")
    (tmp_path / ".data.manifest.json").rename(tmp_path / "data.manifest.json")
    rows = iter(records.read(tmp_path))
    next(rows)
    write(tmp_path, b"b")
    found, error = letters(rows)
    assert set(found) == {b"a"}
    assert REPLACED in error


def test_the_next_iteration_reads_the_new_set(tmp_path):
    write(tmp_path, b"a")
    ds = Dataset.from_tfrecords(tmp_path)
    assert letters(ds) == ([b"a"] * SHARDS * RECORDS, None)
    write(tmp_path, b"b")
    assert letters(ds) == ([b"b"] * SHARDS * RECORDS, None)


def test_so_is_reading_by_number_with_an_index_of_the_old_set(tmp_path):
    write(tmp_path, b"a")
    ds = Dataset.from_tfrecords(tmp_path)
    assert ds[5][:1] == b"a"
    write(tmp_path, b"b")
    with pytest.raises(UsageError, match=REPLACED):
        ds[5]
    assert Dataset.from_tfrecords(tmp_path)[5][:1] == b"b"


def test_a_file_that_is_open_already_is_read_to_its_end(tmp_path):
    write(tmp_path, b"a", shards=1)
    rows = records.read(tmp_path)
    next(rows)
    write(tmp_path, b"b", shards=1)
    assert letters(rows) == ([b"a"] * (SHARDS * RECORDS - 1), None)


def test_a_set_that_is_replaced_while_it_is_counted_is_told_of(tmp_path):
    write(tmp_path, b"a")
    for path in tmp_path.glob(".*.flindex"):
        path.unlink()  # so that records are counted by reading them

    def replace(_):
        if read_manifest(tmp_path, "data").id == first:
            write(tmp_path, b"b")

    first = read_manifest(tmp_path, "data").id
    with pytest.raises(UsageError, match=REPLACED):
        records.count(tmp_path, progress=replace)


@pytest.fixture
def half_named(tmp_path, monkeypatch):
    """A set that is committed, with one file that has its name; finish() does the rest."""
    write(tmp_path, b"a", shards=3)
    old = records.resolve(tmp_path)
    finish = publishing.finish
    with monkeypatch.context() as patch:
        patch.setattr(publishing, "finish", lambda *args: None)
        write(tmp_path, b"b", shards=3)
    new = read_manifest(tmp_path, "data")
    name = new.shards[1].name
    os.replace(tmp_path / f".data.set-{new.id}" / name, tmp_path / name)
    return old, lambda: finish(str(tmp_path), "data", new)


READ = {
    "read": records.read,
    "count": records.count,
    "dataset": lambda paths: list(Dataset.from_tfrecords(paths)),
}


@pytest.mark.parametrize("read", READ)
def test_files_that_wait_for_their_names_are_not_read_with_those_of_the_old_set(
    half_named, monkeypatch, read
):
    old, finish = half_named
    monkeypatch.setattr(shard_files, "PATIENCE", 0)
    for paths in (old, old[:1]):
        with pytest.raises(
            UsageError, match=r"killed before this file got its name(.|\n)*directory as a whole"
        ):
            READ[read](paths)
    assert letters(records.read(old[1:2]))[0][:1] == [b"b"]
    assert letters(records.read(os.path.dirname(old[0]))) == ([b"b"] * SHARDS * RECORDS, None)
    finish()
    assert letters(records.read(old)) == ([b"b"] * SHARDS * RECORDS, None)


def test_a_reader_waits_until_files_have_their_names(half_named, monkeypatch):
    old, finish = half_named
    monkeypatch.setattr(shard_files, "PATIENCE", 30)
    timer = threading.Timer(0.2, finish)
    timer.start()
    assert letters(records.read(old)) == ([b"b"] * SHARDS * RECORDS, None)
    timer.join()

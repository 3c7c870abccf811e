"""Files count as they are now: by path, size and time, or by what a manifest says is in them."""

from __future__ import annotations

import json
import os
import shutil
import sys

import numpy as np
import pytest

import feedline as fl
from feedline import Dataset
from feedline.graph import strict_fingerprint


@pytest.fixture
def files(tmp_path):
    """Three plain files."""
    directory = tmp_path / "plain"
    directory.mkdir()
    for number in range(3):
        with fl.TFRecordWriter(directory / f"train-{number}.tfrecord") as writer:
            writer.write_batch({"x": np.arange(10) + number})
    return directory


@pytest.fixture
def shards(tmp_path):
    """A set of shards with a manifest."""
    with fl.ShardedWriter(tmp_path / "set", shards=2) as writer:
        writer.write_batch({"x": np.arange(10)})
    return tmp_path / "set"


READERS = {
    "one after another": Dataset.from_tfrecords,
    "by turns": lambda files: Dataset.from_tfrecords(files, num_parallel_reads=2),
    "paths": lambda files: Dataset.from_tfrecords(Dataset.list_files(f"{files}/*.tfrecord", shuffle=False)),
    "interleaved": lambda files: Dataset.list_files(f"{files}/*.tfrecord", shuffle=False).interleave(
        Dataset.from_tfrecords
    ),
    "nested": lambda files: nested(Dataset.from_tfrecords(files)),
}


def nested(dataset):
    return Dataset.range(2).flat_map(lambda i: dataset)


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_a_file_that_is_written_anew_counts(files, read):
    old = read(files).fingerprint()
    assert old == read(files).fingerprint()
    path = files / "train-1.tfrecord"
    size, status = path.stat().st_size, path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    touched = read(files).fingerprint()
    shutil.copy(files / "train-0.tfrecord", path)
    with path.open("ab") as file:
        file.write(b"0123456789")
    grown = read(files).fingerprint()
    assert len({old, touched, grown}) == 3
    step = next(name.partition(": file")[0] for name in old.parts if ": file " in name)
    was, now = status.st_mtime_ns, status.st_mtime_ns + 1
    assert touched.changes(old.parts) == [f"{step}: train-1.tfrecord: mtime {was} -> {now}"]
    assert grown.changes(old.parts) == [f"{step}: train-1.tfrecord: size {size} -> {size + 10}"]


def test_another_file_counts_and_so_does_the_order(files):
    paths = sorted(files.iterdir())
    found = [
        Dataset.from_tfrecords(some).fingerprint() for some in (paths, paths[:2], paths[::-1], paths + paths)
    ]
    assert len(set(found)) == 4
    assert found[0].changes(found[1].parts)[0].startswith(f"from_tfrecords: file {paths[2]} is new: size ")


@pytest.mark.parametrize("read", [READERS["one after another"], READERS["by turns"]])
def test_how_a_path_is_written_does_not_count(files, read, monkeypatch, tmp_path):
    absolute = read(files).fingerprint()
    monkeypatch.chdir(tmp_path)
    os.symlink("plain", "link")
    for path in ("plain", "./plain", "../" + tmp_path.name + "/plain", "link", "link/*.tfrecord"):
        assert read(path).fingerprint() == absolute
    monkeypatch.chdir("plain")
    assert read([f"train-{number}.tfrecord" for number in range(3)]).fingerprint() == absolute


def test_where_and_when_a_set_with_a_manifest_was_copied_does_not_count(shards, tmp_path):
    old = Dataset.from_tfrecords(shards).fingerprint()
    shutil.copytree(shards, tmp_path / "copy")
    for path in (tmp_path / "copy").iterdir():
        os.utime(path, ns=(1, 1))
    assert Dataset.from_tfrecords(tmp_path / "copy").fingerprint() == old
    assert any("crc32c" in text for text in old.parts.values())


def test_a_set_that_is_written_anew_counts(shards):
    old = Dataset.from_tfrecords(shards).fingerprint()
    with fl.ShardedWriter(shards, shards=2) as writer:
        writer.write_batch({"x": np.arange(10) + 1})
    (line, _) = Dataset.from_tfrecords(shards).fingerprint().changes(old.parts)
    assert line.startswith("from_tfrecords: data-00000-of-00002.tfrecord: crc32c ")


def test_a_shard_of_another_size_than_its_manifest_says_counts_by_itself(shards):
    path = shards / "data-00001-of-00002.tfrecord"
    with path.open("ab") as file:
        file.write(b"more")
    parts = Dataset.from_tfrecords(shards).fingerprint().parts
    assert "crc32c" in parts["from_tfrecords: file data-00000-of-00002.tfrecord"]
    assert "mtime" in parts[f"from_tfrecords: file {path}"]


def test_a_manifest_that_cannot_be_read_tells_nothing(shards):
    (shards / ".data.manifest.json").write_text("{")
    ds = Dataset.from_tfrecords(f"{shards}/*.tfrecord")
    ds.fingerprint().check()
    assert not any("crc32c" in text for text in ds.fingerprint().parts.values())


def test_a_shard_that_has_yet_to_get_its_name_is_the_same(shards):
    old = Dataset.from_tfrecords(shards).fingerprint()
    hidden = shards / f".data.set-{json.loads((shards / '.data.manifest.json').read_text())['id']}"
    hidden.mkdir()
    for path in shards.glob("*.tfrecord"):
        path.rename(hidden / path.name)
    assert Dataset.from_tfrecords(shards).fingerprint() == old


@pytest.mark.parametrize("version", [None, "1"])
def test_a_file_that_is_gone_is_an_error_that_names_it(files, version):
    ds = Dataset.from_tfrecords(files)
    (files / "train-1.tfrecord").unlink()
    with pytest.raises(fl.UsageError, match=r"from_tfrecords: .*train-1.tfrecord: No such file or directory"):
        strict_fingerprint(ds._node, version)
    assert ds.fingerprint() == ds.fingerprint()


def test_a_pipe_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(fl.UsageError, match="pipe: it is no file that could be read again"):
        strict_fingerprint(Dataset.from_tfrecords(tmp_path / "pipe")._node)


def test_the_time_of_a_file_does_not_count_for_a_position(files):
    rows = iter(Dataset.from_tfrecords(files))
    taken = [next(rows) for _ in range(12)]
    state = json.loads(json.dumps(rows.state_dict()))
    for path in files.iterdir():
        os.utime(path, ns=(1, 1))
    resumed = iter(Dataset.from_tfrecords(files))
    resumed.load_state_dict(state)
    assert [*taken, *resumed] == list(Dataset.from_tfrecords(files))


def test_ten_thousand_files_are_told_with_few_calls_and_in_little_space(tmp_path):
    for number in range(10_000):
        (tmp_path / f"{number:05}.tfrecord").touch()
    ds = Dataset.from_tfrecords(tmp_path)
    calls = 0

    def count(frame, event, argument):
        nonlocal calls
        calls += event in ("call", "c_call")

    strict_fingerprint(ds._node)
    sys.setprofile(count)
    old = strict_fingerprint(ds._node)
    sys.setprofile(None)
    assert calls < 600_000
    assert len(json.dumps(old.parts)) < 2000
    (tmp_path / "05000.tfrecord").write_bytes(b"more")
    assert ds.fingerprint().changes(old.parts) == ["from_tfrecords: files: 0 bytes -> 4 bytes"]

"""Manifests: what they say is checked, and readers of a directory take it at its word."""

from __future__ import annotations

import json
import os
import shutil
import threading

import pytest

from feedline import Dataset, ShardedWriter, records
from feedline.errors import CorruptRecord, UsageError
from feedline.records import shard_files
from feedline.records.feature_texts import feature_texts, features_of
from feedline.records.features import FixedLenFeature, VarLenFeature
from feedline.records.known_indexes import load_index
from feedline.records.publishing import recover
from feedline.records.shard_files import is_shard_name, manifest_paths, read_manifest, shard_name


@pytest.fixture
def written(tmp_path):
    """A set of two shards, and its manifest as a dict."""
    with ShardedWriter(tmp_path, shards=2) as writer:
        for n in range(4):
            writer.write(b"%d" % n)
    return tmp_path, json.loads((tmp_path / ".data.manifest.json").read_bytes())


def put(directory, manifest):
    data = manifest if isinstance(manifest, bytes) else json.dumps(manifest).encode()
    (directory / ".data.manifest.json").write_bytes(data)


def test_a_manifest_is_read_back(written):
    directory, told = written
    manifest = read_manifest(str(directory), "data")
    assert [shard.name for shard in manifest.shards] == [shard["name"] for shard in told["shards"]]
    assert manifest.id == told["id"]
    assert read_manifest(str(directory), "other") is None


def changed(manifest, **fields):
    return manifest | fields


def with_name(manifest, name):
    return manifest | {"shards": [manifest["shards"][0] | {"name": name}, manifest["shards"][1]]}


LIES = {
    "empty": lambda m: b"",
    "not JSON": lambda m: b"\xff\x00",
    "a list": lambda m: [m],
    "deep": lambda m: b"[" * 100_000,
    "no fields": lambda m: {},
    "another version": lambda m: changed(m, version=2),
    "more fields": lambda m: changed(m, more=1),
    "an id that leads elsewhere": lambda m: changed(m, id="../../../../etc"),
    "an id with a line break": lambda m: changed(m, id="0123456789abcdef\n"),
    "a name that leads elsewhere": lambda m: with_name(m, "../../etc/passwd"),
    "a name of another set": lambda m: with_name(m, "other-00000-of-00002.tfrecord"),
    "a name twice": lambda m: with_name(m, m["shards"][1]["name"]),
    "a shard too few": lambda m: changed(m, shards=m["shards"][:1]),
    "a negative size": lambda m: changed(m, shards=[m["shards"][0] | {"bytes": -1}, m["shards"][1]]),
    "a size of text": lambda m: changed(m, shards=[m["shards"][0] | {"records": "4"}, m["shards"][1]]),
    "a checksum too large": lambda m: changed(m, shards=[m["shards"][0] | {"crc32c": 2**32}, m["shards"][1]]),
    "a feature of no kind": lambda m: changed(m, features={"x": {"kind": "Exec", "dtype": "int64"}}),
    "an unknown compression": lambda m: changed(m, compression="rar"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_manifest_that_lies_is_refused_with_its_path_and_a_remedy(written, lie):
    directory, manifest = written
    put(directory, LIES[lie](manifest))
    for ask in (records.resolve, lambda path: recover(str(path), "data"), ShardedWriter):
        with pytest.raises(CorruptRecord, match=r"no manifest that can be read(.|\n)*glob") as caught:
            ask(directory)
        assert caught.value.path == str(directory / ".data.manifest.json")
    assert len(records.resolve(f"{directory}/data-*")) == 2


def test_a_manifest_that_is_too_large_is_not_read_whole(written, monkeypatch):
    directory, _ = written
    monkeypatch.setattr(shard_files, "_MAX_MANIFEST", 100)
    with pytest.raises(CorruptRecord, match="larger than 100 bytes"):
        records.resolve(directory)


def test_a_directory_means_the_shards_of_its_manifests_and_all_other_files(written):
    directory, _ = written
    for name in ("a.tfrecord", "data-00000-of-00009.tfrecord", "data-x.tfrecord", "data-1-of-2.tfrecord"):
        (directory / name).write_bytes(b"")
    assert [os.path.basename(path) for path in records.resolve(directory)] == [
        "a.tfrecord",
        "data-00000-of-00002.tfrecord",
        "data-00001-of-00002.tfrecord",
        "data-1-of-2.tfrecord",
        "data-x.tfrecord",
    ]


def test_a_shard_that_is_missing_is_missed(written):
    directory, _ = written
    (directory / "data-00001-of-00002.tfrecord").unlink()
    with pytest.raises(FileNotFoundError, match="data-00001-of-00002"):
        list(records.read(directory))


def test_shards_that_have_no_names_yet_are_read_where_they_are(written, monkeypatch):
    directory, manifest = written
    monkeypatch.setattr(shard_files, "PATIENCE", 0)
    place = directory / f".data.set-{manifest['id']}"
    place.mkdir()
    (directory / "data-00000-of-00002.tfrecord").rename(place / "data-00000-of-00002.tfrecord")
    (directory / "data-00001-of-00002.tfrecord").rename(place / "data-00001-of-00002.tfrecord")
    (directory / "data-00000-of-00002.tfrecord").write_bytes(b"of the old set")
    assert list(records.read(directory)) == [b"0", b"1", b"2", b"3"]
    recover(str(directory), "data")
    assert not place.exists()
    assert [os.path.dirname(path) for path in records.resolve(directory)] == [str(directory)] * 2
    assert list(records.read(directory)) == [b"0", b"1", b"2", b"3"]


def test_a_reader_waits_for_a_commit_that_is_giving_shards_their_names(written, monkeypatch):
    directory, manifest = written
    monkeypatch.setattr(shard_files, "PATIENCE", 200)
    place = directory / f".data.set-{manifest['id']}"
    place.mkdir()
    timer = threading.Timer(0.2, place.rmdir)
    timer.start()
    assert [os.path.dirname(path) for path in records.resolve(directory)] == [str(directory)] * 2
    assert not place.exists()
    timer.join()


def test_names_of_the_old_set_that_lie_remove_nothing_else(written):
    directory, manifest = written
    (directory / "mine.txt").write_text("mine")
    place = directory / f".data.set-{manifest['id']}"
    place.mkdir()
    names = [
        "mine.txt",
        "../mine.txt",
        ".data.manifest.json",
        "/etc/hostname",
        "data-00000-of-00002.tfrecord",
    ]
    (place / "replaced.json").write_text(json.dumps([*names, "data-00007-of-00009.tfrecord"]))
    (directory / "data-00007-of-00009.tfrecord").write_bytes(b"")
    recover(str(directory), "data")
    assert (directory / "mine.txt").exists()
    assert not (directory / "data-00007-of-00009.tfrecord").exists()
    assert list(records.read(f"{directory}/data-*")) == [b"0", b"1", b"2", b"3"]


def as_older_version(directory):
    """Give manifest and indexes the names that they had without the dot."""
    for path in directory.glob(".data*"):
        path.rename(directory / path.name.removeprefix("."))


def test_the_set_of_an_older_version_is_read(written):
    directory, manifest = written
    as_older_version(directory)
    (directory / "data-00007-of-00009.tfrecord").write_bytes(b"of no set")
    assert sorted(os.listdir(directory))[:2] == [
        "data-00000-of-00002.tfrecord",
        "data-00000-of-00002.tfrecord.flindex",
    ]
    assert read_manifest(str(directory), "data").id == manifest["id"]
    assert list(records.read(directory)) == [b"0", b"1", b"2", b"3"]
    assert len(Dataset.from_tfrecords(directory)) == 4  # by its indexes


def test_a_new_set_replaces_the_manifest_of_an_older_version(written):
    directory, _ = written
    as_older_version(directory)
    with ShardedWriter(directory, shards=1) as writer:
        writer.write(b"new")
    name = "data-00000-of-00001.tfrecord"
    assert sorted(os.listdir(directory)) == [f".{name}.flindex", ".data.manifest.json", name]
    assert list(records.read(directory)) == [b"new"]


def test_a_complete_set_of_an_older_version_is_known_to_resume(written):
    directory, _ = written
    as_older_version(directory)
    with ShardedWriter(directory, resume=True) as writer:
        assert writer.count == 4
    assert list(records.read(directory)) == [b"0", b"1", b"2", b"3"]


def test_where_both_manifests_are_there_the_hidden_one_counts(written):
    directory, manifest = written
    old = manifest | {"id": "0" * 16, "shards": []}
    (directory / "data.manifest.json").write_text(json.dumps(old))
    assert read_manifest(str(directory), "data").id == manifest["id"]
    assert list(records.read(directory)) == [b"0", b"1", b"2", b"3"]
    # A writer that was killed after its commit left both: the next one removes the old.
    (directory / f".data.set-{manifest['id']}").mkdir()
    recover(str(directory), "data")
    assert not (directory / "data.manifest.json").exists()
    assert list(records.read(directory)) == [b"0", b"1", b"2", b"3"]


def test_a_set_that_an_older_version_was_killed_in_keeps_its_manifest(written):
    directory, manifest = written
    as_older_version(directory)
    place = directory / f".data.set-{manifest['id']}"
    place.mkdir()
    (directory / "data-00000-of-00002.tfrecord").rename(place / "data-00000-of-00002.tfrecord")
    assert recover(str(directory), "data").id == manifest["id"]
    assert read_manifest(str(directory), "data").id == manifest["id"]
    assert list(records.read(directory)) == [b"0", b"1", b"2", b"3"]


def test_a_manifest_is_looked_for_again_under_its_new_name_when_the_old_one_is_gone(written, monkeypatch):
    directory, manifest = written
    as_older_version(directory)
    new, old = directory / ".data.manifest.json", directory / "data.manifest.json"

    def interrupted(*args):
        first, *rest = manifest_paths(*args)
        yield first
        old.rename(new)  # a writer commits in between
        yield from rest

    monkeypatch.setattr(shard_files, "manifest_paths", interrupted)
    assert read_manifest(str(directory), "data").id == manifest["id"]


def indexes(directory):
    return sorted(name for name in os.listdir(directory) if name.endswith(".flindex"))


@pytest.mark.parametrize("shards", [2, 3])
@pytest.mark.parametrize("compression", [None, "GZIP"])
def test_a_set_that_is_replaced_leaves_no_indexes_behind(written, shards, compression):
    directory, _ = written
    for name in ("data-00000-of-00002.tfrecord", "data-00001-of-00002.tfrecord"):
        shutil.copy(directory / f".{name}.flindex", directory / f"{name}.flindex")  # as older versions did
    with ShardedWriter(directory, shards=shards, compression=compression) as writer:
        writer.write(b"new")
    names = [f".data-{n:05}-of-{shards:05}.tfrecord.flindex" for n in range(shards)]
    assert indexes(directory) == ([] if compression else names)


def test_indexes_that_a_killed_older_version_left_are_put_in_place(written):
    directory, manifest = written
    name = "data-00000-of-00002.tfrecord"
    place = directory / f".data.set-{manifest['id']}"
    place.mkdir()
    (directory / name).rename(place / name)
    (directory / f".{name}.flindex").rename(place / f"{name}.flindex")
    recover(str(directory), "data")
    assert load_index(str(directory / name)) is not None
    assert indexes(directory) == [f".{name}.flindex", ".data-00001-of-00002.tfrecord.flindex"]


def test_features_become_text_and_come_back():
    features = {
        "image": FixedLenFeature([28, 28], "float32"),
        "label": FixedLenFeature([], "int64"),
        "words": VarLenFeature("string"),
        "never": None,
    }
    assert features_of(feature_texts(features)) == features


@pytest.mark.parametrize(
    ("name", "yes"),
    [
        (shard_name("data", 3, 16), True),
        (shard_name("data", 123_456, 1_000_000), True),
        ("data-0-of-1.tfrecord", False),
        ("data-00000-of-00001.tfrecord.flindex", False),
        ("data2-00000-of-00001.tfrecord", False),
        ("data-\u0660\u0660\u0660\u0660\u0660-of-00001.tfrecord", False),
        ("data-00000-of-00001.tfrecord\n", False),
    ],
)
def test_a_shard_is_known_by_its_name(name, yes):
    assert is_shard_name("data", name) == yes


def test_names_sort_as_numbers_do():
    names = [shard_name("a", n, 100_001) for n in (0, 99_999, 100_000)]
    assert names == sorted(names)


def test_a_file_named_like_a_manifest_alone_is_told_of(tmp_path):
    (tmp_path / "a.manifest.json").write_text("{}")
    with pytest.raises(CorruptRecord, match=r"a\.manifest\.json"):
        records.resolve(tmp_path)
    with pytest.raises(UsageError, match="no file matches"):
        records.resolve(f"{tmp_path}/*")

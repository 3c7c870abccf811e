"""reshard: the records of some files as a set of so many shards."""

from __future__ import annotations

import errno
import gzip
import json
import os
import pickle
import signal
import subprocess
import zlib

import pytest

import feedline as fl
from feedline import CorruptRecord, ShardedWriter, UsageError, WriteError, records
from feedline.records import reshard
from feedline.records.beside import index_path
from tests.processes import run_python, start_python
from tests.records.corrupt import check_located, flip, frame, frames


def payloads(count):
    return [b"%d " % n + b"x" * (n * 7919 % 3000) for n in range(count)]


@pytest.mark.parametrize("shards", [1, 3, 7, 64])
@pytest.mark.parametrize("count", [0, 1, 50, 5000])
def test_records_keep_their_order_in_shards_whose_counts_differ_by_one_at_most(
    write, tmp_path, count, shards
):
    wanted = payloads(count)
    cut = count // 3
    files = [write("a", wanted[:cut]), write("b", wanted[cut:], gzip.compress)]
    done = reshard(files, tmp_path / "out", shards)
    assert done == records.Reshard(str(tmp_path / "out"), 2, shards, count)
    found = records.resolve(tmp_path / "out")
    assert [os.path.basename(path) for path in found] == [
        f"data-{n:05}-of-{shards:05}.tfrecord" for n in range(shards)
    ]
    counts = [records.count(path) for path in found]
    assert max(counts) - min(counts) <= 1
    assert list(records.read(found)) == wanted
    for path in found:
        assert records.verify(path).ok
        assert os.path.exists(index_path(path))
        assert len(records.index(path)) == records.verify(path).records


def test_tensorflow_reads_the_shards(write, tmp_path):
    tf = pytest.importorskip("tensorflow")
    wanted = payloads(1000)
    reshard(write("a", wanted, zlib.compress), tmp_path / "out", 5, prefix="train")
    names = sorted(str(path) for path in (tmp_path / "out").glob("train-*.tfrecord"))
    assert len(names) == 5
    assert list(tf.data.TFRecordDataset(names).as_numpy_iterator()) == wanted


def test_a_set_of_a_writer_takes_another_number_of_shards_in_place(tmp_path):
    with ShardedWriter(tmp_path / "set", shards=7) as writer:
        writer.write_batch({"n": list(range(100))})
    before = json.loads((tmp_path / "set" / ".data.manifest.json").read_text())
    reshard(tmp_path / "set", tmp_path / "set", 3)
    rows = fl.Dataset.from_tfrecords(tmp_path / "set", {"n": fl.FixedLenFeature([], "int64")})
    assert [int(row["n"]) for row in rows] == list(range(100))
    after = json.loads((tmp_path / "set" / ".data.manifest.json").read_text())
    assert after["features"] == before["features"]
    assert [shard["records"] for shard in after["shards"]] == [34, 33, 33]
    assert len(os.listdir(tmp_path / "set")) == 3 * 2 + 1
    reshard(str(tmp_path / "set" / "*.tfrecord"), tmp_path / "set", 3)
    assert records.count(tmp_path / "set") == 100


def refused(kind, files, directory, match, **more):
    before = os.listdir(directory) if directory.exists() else []
    with pytest.raises(kind, match=match) as caught:
        reshard(files, directory, 2, **more)
    assert (os.listdir(directory) if directory.exists() else []) == before
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    return caught.value


def test_a_set_that_is_not_the_source_is_not_replaced(write, tmp_path):
    out = tmp_path / "out"
    reshard(write("a", payloads(10)), out, 4)
    refused(UsageError, tmp_path / "a", out, "would be lost")
    refused(UsageError, out / "data-00001-of-00004.tfrecord", out, "data-00000-of-00004.tfrecord")
    reshard(tmp_path / "a", out, 2, prefix="other")
    assert records.count(out) == 20


def test_files_without_a_manifest_are_not_mixed_with_shards(write, tmp_path):
    (tmp_path / "out").mkdir()
    write("out/data-00000-of-00001.tfrecord", payloads(3))
    refused(UsageError, tmp_path / "out", tmp_path / "out", "no manifest tells")


@pytest.mark.parametrize("bit", [8 * 5, 8 * 13])
def test_a_damaged_source_is_named_and_there_is_no_set(write, tmp_path, bit):
    good, bad = write("good", [b"good" * 10] * 20), write("bad", [b"good" * 10] * 20)
    bad.write_bytes(frame(b"first") + flip(frames([b"good" * 10] * 20), bit))
    error = refused(CorruptRecord, [good, bad], tmp_path / "out", "corrupt")
    check_located(error, bad, 1, 21)


@pytest.mark.parametrize("shards", [0, -1, 1.5, True, None, 10**9])
def test_a_number_of_shards_that_cannot_be_meant_is_refused(write, tmp_path, shards):
    with pytest.raises(UsageError, match="shards="):
        reshard(write("a", [b"x"]), tmp_path / "out", shards)
    assert not (tmp_path / "out").exists()


def test_places_and_names_that_cannot_be_are_refused(write, tmp_path):
    a = write("a", payloads(3))
    with pytest.raises(WriteError) as caught:
        reshard(a, a / "out", 2)
    assert caught.value.errno == errno.ENOTDIR
    refused(UsageError, a, tmp_path / "out", "prefix", prefix="x/y")
    refused(FileNotFoundError, tmp_path / "missing", tmp_path / "out", "missing")
    os.mkfifo(tmp_path / "pipe")
    refused(UsageError, [a, tmp_path / "pipe"], tmp_path / "out", "no regular file")


def test_a_directory_that_is_being_written_is_refused_with_who_writes_it(write, tmp_path):
    a = write("a", payloads(3))
    with ShardedWriter(tmp_path / "out", shards=1) as writer:
        refused(WriteError, a, tmp_path / "out", str(os.getpid()))
        writer.write(b"x")
    assert list(records.read(tmp_path / "out")) == [b"x"]


def test_a_full_disk_is_a_write_error_and_there_is_no_set(write, tmp_path):
    large = write("large", [b"x" * 1_000_000])
    done = run_python(
        "import os, resource, sys, feedline as fl\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, 500_000))\n"
        "try: fl.records.reshard(sys.argv[1], sys.argv[2], 1)\n"
        "except fl.WriteError as error: print(error.errno, sys.argv[2] in str(error))\n",
        str(large), str(tmp_path / "out"),
    )  # fmt: skip
    assert done.stdout == f"{errno.EFBIG} True\n", done.stderr
    assert os.listdir(tmp_path / "out") == []


def test_one_that_is_killed_leaves_the_set_as_it_was_or_as_it_was_to_be(tmp_path):
    with ShardedWriter(tmp_path / "set", shards=3) as writer:
        for n in range(300):
            writer.write(b"%d" % n * 20_000)
    wanted = list(records.read(tmp_path / "set"))
    code = (
        "import sys, feedline as fl\n"
        "print(flush=True)\n"
        "fl.records.reshard(sys.argv[1], sys.argv[1], int(sys.argv[2]))"
    )
    for turn in range(12):
        with start_python(code, str(tmp_path / "set"), str(turn % 4 + 2)) as process:
            process.stdout.readline()
            try:
                process.wait(0.005 + turn * 0.01)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
        assert list(records.read(tmp_path / "set")) == wanted
    reshard(tmp_path / "set", tmp_path / "set", 2)
    assert sorted(os.listdir(tmp_path / "set")) == sorted(
        [
            ".data.manifest.json",
            *(f"data-0000{n}-of-00002.tfrecord" for n in range(2)),
            *(f".data-0000{n}-of-00002.tfrecord.flindex" for n in range(2)),
        ]
    )


def test_progress_grows_to_the_size_of_the_files(write, tmp_path):
    paths = [write(name, [os.urandom(1 << 20)] * 20) for name in "ab"]
    seen = []
    reshard(paths, tmp_path / "out", 3, progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == sum(path.stat().st_size for path in paths)

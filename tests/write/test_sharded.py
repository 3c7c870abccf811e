"""ShardedWriter: what is written by many becomes one set of files, all of it or nothing."""

from __future__ import annotations

import json
import os
import pickle
import re
import threading
from contextlib import suppress

import google_crc32c
import numpy as np
import pytest

import feedline as fl
from feedline import SchemaError, ShardedWriter, UsageError, WriteError, records
from feedline.records.beside import index_path
from feedline.records.known_indexes import load_index
from tests.processes import run_python
from tests.write.disk import watched


def visible(directory):
    return sorted(name for name in os.listdir(directory) if not name.startswith("."))


def hidden(directory):
    """What is hidden, apart from what belongs to a set."""
    names = (name for name in os.listdir(directory) if name.startswith("."))
    return [name for name in names if not name.endswith((".flindex", ".manifest.json"))]


def shards_in(directory, prefix="data"):
    return [n for n in visible(directory) if n.startswith(f"{prefix}-") and n.endswith(".tfrecord")]


def manifest_of(directory, prefix="data"):
    with open(os.path.join(directory, f".{prefix}.manifest.json")) as file:
        return json.load(file)


def numbers(first, end):
    return [b"%d" % n for n in range(first, end)]


def write_numbers(writer, first, end):
    for record in numbers(first, end):
        writer.write(record)


def fail_after(write, directory, **options):
    """Leave the block by an exception."""
    with suppress(ZeroDivisionError), ShardedWriter(directory, **options) as writer:
        write(writer)
        raise ZeroDivisionError


@pytest.mark.parametrize("compression", [None, "GZIP", "ZLIB"])
@pytest.mark.parametrize("size", [{"shards": 4}, {"max_shard_bytes": 500_000}])
def test_tensorflow_reads_every_shard(tmp_path, compression, size):
    tf = pytest.importorskip("tensorflow")
    wanted = [bytes([n % 256]) * n for n in (*range(200), 400_000, 0, 700_000, 5)]
    with ShardedWriter(tmp_path, compression=compression, **size) as writer:
        for record in wanted:
            writer.write(record)
    names = shards_in(tmp_path)
    paths = [str(tmp_path / name) for name in names]
    assert names == [f"data-{n:05}-of-{len(names):05}.tfrecord" for n in range(len(names))]
    assert list(tf.data.TFRecordDataset(paths, compression or "").as_numpy_iterator()) == wanted
    assert list(records.read(tmp_path)) == wanted


@pytest.mark.parametrize(("rows", "shards"), [(10, 4), (3, 5), (0, 2), (8, 4), (1, 1)])
def test_numbers_of_records_differ_by_one_at_most(tmp_path, rows, shards):
    with ShardedWriter(tmp_path, shards=shards) as writer:
        write_numbers(writer, 0, rows)
    counts = [records.count(tmp_path / name) for name in shards_in(tmp_path)]
    assert len(counts) == shards
    assert sum(counts) == rows
    assert max(counts) - min(counts) <= 1
    assert list(records.read(tmp_path)) == numbers(0, rows)


def test_shards_have_at_most_so_many_bytes_unless_one_record_has_more(tmp_path):
    sizes = [100, 200, 5000, 300, 300, 300, 984, 1, 984]
    with ShardedWriter(tmp_path, max_shard_bytes="1KB") as writer:
        for size in sizes:
            writer.write(bytes(size))
        writer.write_batch({"x": np.zeros((10, 100), np.float32)})  # larger than a shard as a whole
    for name in shards_in(tmp_path):
        path = tmp_path / name
        assert path.stat().st_size <= 1000 or records.count(path) == 1
    assert [len(r) for r in records.read(tmp_path)][: len(sizes)] == sizes
    assert records.count(tmp_path) == len(sizes) + 10


def test_without_a_size_a_small_set_is_one_shard_and_an_empty_one_too(tmp_path):
    with ShardedWriter(tmp_path / "a") as writer:
        write_numbers(writer, 0, 3)
    assert shards_in(tmp_path / "a") == ["data-00000-of-00001.tfrecord"]
    with ShardedWriter(tmp_path / "b"):
        pass
    assert list(records.read(tmp_path / "b")) == []


def test_the_manifest_tells_counts_sizes_checksums_features_and_version(tmp_path):
    with ShardedWriter(tmp_path, shards=2) as writer:
        writer.write_batch({"x": np.zeros((5, 2, 3)), "n": [1, 2, 3, 4, 5], "s": [["a"]] * 5})
    told = manifest_of(tmp_path)
    for shard in told["shards"]:
        data = (tmp_path / shard["name"]).read_bytes()
        assert shard["bytes"] == len(data)
        assert shard["crc32c"] == google_crc32c.value(data)
        assert shard["records"] == records.count(tmp_path / shard["name"])
    assert [shard["records"] for shard in told["shards"]] == [3, 2]
    assert told["feedline"] == fl.__version__
    assert told["features"] == {
        "x": {"kind": "RawFeature", "dtype": "float64", "shape": [2, 3]},
        "n": {"kind": "FixedLenFeature", "dtype": "int64", "shape": []},
        "s": {"kind": "FixedLenFeature", "dtype": "string", "shape": [1]},
    }


@pytest.mark.parametrize("size", [{"shards": 3}, {"max_shard_bytes": 300}])
def test_every_plain_shard_has_its_index(tmp_path, size):
    with ShardedWriter(tmp_path, **size) as writer:
        write_numbers(writer, 0, 50)
        writer.producer("b").write(b"longer than the others")
    for name in shards_in(tmp_path):
        path = str(tmp_path / name)
        offsets = load_index(path)
        assert offsets is not None
        os.unlink(index_path(path))
        np.testing.assert_array_equal(records.index(path).offsets, offsets[:-1])
    ds = fl.Dataset.from_tfrecords(str(tmp_path))
    assert ds[49] == b"49"


def test_all_of_a_set_is_on_the_disk_before_its_manifest_has_its_name(tmp_path, monkeypatch):
    asked = watched(monkeypatch)
    with ShardedWriter(tmp_path, shards=3) as writer:
        writer.write_batch({"x": np.arange(30)})
    commit = asked.index(("name", tmp_path / ".data.manifest.json"))
    synced = [path for kind, path in asked[:commit] if kind == "sync"]
    names = [f"data-{n:05}-of-00003.tfrecord" for n in range(3)]
    for name in [*names, "manifest.json"]:
        assert name in {path.name for path in synced}
    for name in names:  # the index too, before it gets its own name
        assert any(re.fullmatch(rf"\.{name}\.\w+\.flindex", path.name) for path in synced)
    assert synced[-1] == tmp_path
    assert asked[commit + 1] == ("sync", tmp_path)


def test_a_seal_speaks_of_what_is_on_the_disk(tmp_path, monkeypatch):
    asked = watched(monkeypatch)
    with ShardedWriter(tmp_path) as writer:
        with writer.producer("a") as producer:
            producer.write({"x": 1})
        seal = next(
            at for at, (kind, path) in enumerate(asked) if kind == "name" and path.name == "000000.json"
        )
        synced = [path for kind, path in asked[:seal] if kind == "sync"]
        home = asked[seal][1].parent
        assert home / "000000.part" in synced
        for begin in ("000000.json.", "producer.json.", "features.json."):
            assert [path for path in synced if path.name.startswith(begin)]
        assert asked[seal + 1] == ("sync", home)


def test_a_part_that_is_a_shard_is_not_copied(tmp_path):
    with ShardedWriter(tmp_path, max_shard_bytes=100) as writer:
        write_numbers(writer, 0, 10)  # two shards, as they were written
        (staging,) = [name for name in hidden(tmp_path) if "writing" in name]
        parts = {entry.inode() for entry in os.scandir(tmp_path / staging / "own")}
    assert {os.stat(tmp_path / name).st_ino for name in shards_in(tmp_path)} <= parts


def test_a_batch_may_be_of_records_that_are_bytes(tmp_path):
    with ShardedWriter(tmp_path, shards=2) as writer:
        writer.write_batch(numbers(0, 5), key=4)
        writer.write_batch([], key=5)
        assert (writer.count, writer.last_key) == (5, 4)
        with pytest.raises(UsageError, match="write_batch"):
            writer.write_batch(b"one record")
    assert list(records.read(tmp_path)) == numbers(0, 5)
    assert manifest_of(tmp_path)["features"] is None


def test_nothing_is_left_beside_the_set(tmp_path):
    with ShardedWriter(tmp_path) as writer:
        assert hidden(tmp_path)
        writer.write(b"one")
    assert hidden(tmp_path) == []


def test_records_come_in_the_order_of_their_producers(tmp_path):
    with ShardedWriter(tmp_path, shards=2) as writer:
        for name in ("b", "a", "ä", "B"):
            writer.producer(name).write(name.encode())
        writer.write(b"own")
    assert list(records.read(tmp_path)) == [b"own", b"B", b"a", b"b", "ä".encode()]


@pytest.mark.parametrize("name", ["a/b", "../..", ".", "\n", "\0", "x" * 1000, "*", "é", "\udcff", " "])
def test_a_producer_may_have_any_name(tmp_path, name):
    with ShardedWriter(tmp_path, resume=True) as writer, writer.producer(name) as producer:
        producer.write(b"one", key=name)
    assert list(records.read(tmp_path)) == [b"one"]
    with ShardedWriter(tmp_path, resume=True) as writer:
        assert (writer.producer(name).count, writer.producer(name).last_key) == (1, name)


def test_a_new_set_takes_the_place_of_the_old(tmp_path):
    (tmp_path / "other.tfrecord").write_bytes(b"")
    for shards in (3, 1, 4):
        with ShardedWriter(tmp_path, shards=shards) as writer:
            write_numbers(writer, 0, shards)
            if shards == 1:
                assert list(records.read(tmp_path)) == numbers(0, 3)  # the old one, until the end
        assert list(records.read(tmp_path)) == numbers(0, shards)
    assert len(shards_in(tmp_path)) == 4
    assert (tmp_path / "other.tfrecord").exists()


def test_an_exception_leaves_everything_as_it_was(tmp_path):
    with ShardedWriter(tmp_path, shards=2) as writer:
        write_numbers(writer, 0, 4)
    before = {name: (tmp_path / name).read_bytes() for name in visible(tmp_path)}
    fail_after(lambda writer: write_numbers(writer, 10, 14), tmp_path, shards=2)
    assert {name: (tmp_path / name).read_bytes() for name in visible(tmp_path)} == before
    assert hidden(tmp_path) == []


def test_an_exception_of_a_producer_keeps_the_set_from_being_committed(tmp_path):
    writer = ShardedWriter(tmp_path)
    with writer.producer("a") as producer:
        producer.write(b"1")
    with suppress(ZeroDivisionError), writer.producer("b") as producer:
        producer.write(b"2", key="two")
        raise ZeroDivisionError("in b")
    with pytest.raises(WriteError, match=r"producer 'b' \(\d+\): ZeroDivisionError: in b\.") as caught:
        writer.close()
    assert "resume=True" in str(caught.value)
    assert visible(tmp_path) == []
    with ShardedWriter(tmp_path, resume=True) as writer, writer.producer("b") as producer:
        assert (producer.count, producer.last_key) == (1, "two")
        producer.write(b"3")
    assert list(records.read(tmp_path)) == [b"1", b"2", b"3"]
    assert [name for name in hidden(tmp_path) if "writing" in name] == []


@pytest.mark.parametrize("left", [[b"2"], []])
def test_a_producer_that_failed_may_begin_again(tmp_path, left):
    with ShardedWriter(tmp_path) as writer:
        with suppress(ZeroDivisionError), writer.producer("a") as producer:
            producer.write(b"1")
            raise ZeroDivisionError
        with writer.producer("a") as producer:
            for record in left:
                producer.write(record)
    assert list(records.read(tmp_path)) == [b"1", *left]


def test_abort_leaves_nothing_and_what_comes_after_is_refused(tmp_path):
    writer = ShardedWriter(tmp_path)
    producer = writer.producer("a")
    producer.write(b"one")
    writer.abort()
    assert os.listdir(tmp_path) == []
    for write in (writer.write, producer.write, writer.producer("b").write):
        with pytest.raises(WriteError, match="nothing more can be written"):
            write(b"two")
    writer.close()
    assert os.listdir(tmp_path) == []


def test_a_closed_writer_takes_nothing_more(tmp_path):
    with ShardedWriter(tmp_path) as writer:
        writer.write(b"one")
    for write in (writer.write, writer.producer("late").write, lambda record: writer.write({"x": 1})):
        with pytest.raises(WriteError, match=r"was committed.*\n.*before the `with` block"):
            write(b"two")
    with pytest.raises(WriteError, match="was committed"):
        _ = writer.producer("late").count
    assert list(records.read(tmp_path)) == [b"one"]
    assert writer.count == 1


def test_threads_share_a_writer(tmp_path):
    def work(n):
        for i in range(200):
            writer.write(b"%d" % (n * 200 + i))

    with ShardedWriter(tmp_path, shards=3) as writer:
        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert writer.count == 800
    assert sorted(map(int, records.read(tmp_path))) == list(range(800))


def test_an_example_that_does_not_fit_is_refused_and_nothing_of_it_written(tmp_path):
    with ShardedWriter(tmp_path) as writer:
        writer.write({"x": 1, "seen": []})
        with pytest.raises(SchemaError, match="'x'"):
            writer.producer("a").write({"x": "text", "seen": []})
        writer.write({"x": 2, "seen": [1]})
        with pytest.raises(SchemaError, match="'seen'"):
            writer.write_batch({"x": [3, 4], "seen": [["a"], ["b"]]})
    assert records.count(tmp_path) == 2
    assert manifest_of(tmp_path)["features"]["seen"] == {"kind": "VarLenFeature", "dtype": "int64"}


KEYS = [7, "seven", 7.5, True, ("a", 7), ("a", ("b", 1)), 2**70, None, "\udcff", np.int32(3)]


@pytest.mark.parametrize("key", KEYS)
def test_a_key_comes_back_as_it_was(tmp_path, key):
    with ShardedWriter(tmp_path) as writer:
        writer.write(b"one", key=key)
        assert writer.last_key == key
    with ShardedWriter(tmp_path, resume=True) as writer:
        assert writer.last_key == key
        assert type(writer.last_key) is type(key if not isinstance(key, np.integer) else 3)


@pytest.mark.parametrize("key", [b"bytes", ["list"], {"a": 1}, object()])
def test_a_key_that_would_not_come_back_is_refused(tmp_path, key):
    with ShardedWriter(tmp_path) as writer:
        with pytest.raises(UsageError, match="a key is text, a number"):
            writer.write(b"one", key=key)
        assert writer.count == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"shards": 2, "max_shard_bytes": 10}, "Give one of them"),
        ({"shards": 0}, "between 1 and"),
        ({"shards": True}, "between 1 and"),
        ({"max_shard_bytes": "many"}, "a number of bytes"),
        ({"max_shard_bytes": 0}, "a number of bytes"),
        ({"compression": "auto"}, "for reading"),
        ({"compression": "snappy"}, "GZIP"),
        ({"prefix": "a/b"}, "cannot hold /"),
        ({"prefix": ".a"}, "passed over"),
        ({"prefix": "_a"}, "passed over"),
        ({"prefix": ""}, "give the text"),
        ({"prefix": "a\0"}, "cannot hold"),
        ({"prefix": "x" * 300}, "300 bytes"),
        ({"prefix": "\udcff"}, "UTF-8"),
    ],
)
def test_an_argument_that_cannot_be_meant_is_refused_before_anything_is_made(tmp_path, options, says):
    with pytest.raises(UsageError, match=says):
        ShardedWriter(tmp_path / "new", **options)
    assert not (tmp_path / "new").exists()


STRANGE = ["a b", "ü", "[x]*?", "a\nb", "%s{0}", "-", "data-00000-of-00002.tfrecord", "x" * 180]


@pytest.mark.parametrize("prefix", STRANGE)
def test_a_prefix_may_have_strange_characters(tmp_path, prefix):
    for _ in range(2):
        with ShardedWriter(tmp_path, prefix=prefix, shards=2) as writer:
            write_numbers(writer, 0, 4)
    assert len(shards_in(tmp_path, prefix)) == 2
    assert list(records.read(tmp_path)) == numbers(0, 4)


def test_sets_of_several_prefixes_share_a_directory(tmp_path):
    with ShardedWriter(tmp_path, prefix="train", shards=2) as train:
        with ShardedWriter(tmp_path, prefix="test") as test:
            write_numbers(test, 0, 5)
        write_numbers(train, 5, 10)
    assert list(records.read(tmp_path)) == numbers(0, 10)
    assert list(records.read(f"{tmp_path}/train-*")) == numbers(5, 10)
    assert list(records.read(f"{tmp_path}/*")) == numbers(0, 10)


def test_files_of_strangers_are_not_mixed_with_the_set(tmp_path):
    (tmp_path / "data-00000-of-00002.tfrecord").write_bytes(b"")
    with pytest.raises(UsageError, match="no manifest tells"):
        ShardedWriter(tmp_path)
    assert os.listdir(tmp_path) == ["data-00000-of-00002.tfrecord"]


def test_the_directory_and_those_above_it_are_made(tmp_path):
    with ShardedWriter(tmp_path / "a" / "b" / "c") as writer:
        writer.write(b"one")
    assert records.count(tmp_path / "a" / "b" / "c") == 1


def test_a_path_that_is_a_file_or_below_one_is_a_write_error(tmp_path):
    (tmp_path / "file").write_bytes(b"mine")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(WriteError, match="cannot write in"):
            ShardedWriter(path)
    assert (tmp_path / "file").read_bytes() == b"mine"


def test_a_relative_path_stays_the_same_place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    with ShardedWriter("here") as writer:
        monkeypatch.chdir(tmp_path / "elsewhere")
        writer.write(b"one")
    assert records.count(tmp_path / "here") == 1


READ_ONLY = """
import os, sys
import feedline as fl
if os.getuid() == 0:
    os.setuid(65534)
try:
    fl.ShardedWriter(sys.argv[1])
except fl.WriteError as error:
    print(error.errno, error)
"""


def test_a_directory_that_may_not_be_written_is_a_write_error(tmp_path):
    tmp_path.chmod(0o555)
    try:
        told = run_python(READ_ONLY, str(tmp_path))
    finally:
        tmp_path.chmod(0o755)
    assert told.stdout.startswith("13 "), told.stderr
    assert "Permission denied" in told.stdout
    assert os.listdir(tmp_path) == []


def test_a_second_writer_is_refused_and_told_who_holds_the_directory(tmp_path):
    with ShardedWriter(tmp_path) as writer:
        who = rf"being written by process {os.getpid()} \(.*\) on .* since \d"
        with pytest.raises(WriteError, match=who):
            ShardedWriter(tmp_path)
        with pytest.raises(WriteError, match="being written"):
            ShardedWriter(tmp_path, resume=True)
        writer.write(b"one")
    with ShardedWriter(tmp_path):
        pass


def test_a_lock_file_that_nobody_holds_is_taken_over(tmp_path):
    (tmp_path / ".data.lock").write_text("process 1 (gone) since long ago")
    with ShardedWriter(tmp_path) as writer:
        writer.write(b"one")
    assert records.count(tmp_path) == 1


def test_a_writer_that_is_never_closed_warns_and_lets_go(tmp_path):
    writer = ShardedWriter(tmp_path)
    writer.write(b"one", key=1)
    with pytest.warns(RuntimeWarning, match="never closed"):
        del writer
    assert visible(tmp_path) == []
    with ShardedWriter(tmp_path, resume=True) as writer:
        assert (writer.count, writer.last_key) == (1, 1)


def test_an_error_can_be_pickled(tmp_path):
    with ShardedWriter(tmp_path), pytest.raises(WriteError) as caught:
        ShardedWriter(tmp_path)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert str(copy) == str(caught.value)


# Resuming


def test_resume_goes_on_after_an_exception(tmp_path):
    def write(writer):
        writer.write(b"0", key="zero")
        with writer.producer("a") as producer:
            producer.write_batch({"x": [1, 2]}, key=("a", 2))

    fail_after(write, tmp_path, resume=True, shards=2)
    assert visible(tmp_path) == []
    with ShardedWriter(tmp_path, resume=True, shards=3) as writer:
        assert (writer.count, writer.last_key) == (1, "zero")
        producer = writer.producer("a")
        assert (producer.count, producer.last_key) == (2, ("a", 2))
        assert writer.producer("b").count == 0
        producer.write({"x": 3}, key=("a", 3))
        assert (producer.count, producer.last_key) == (3, ("a", 3))
        with pytest.raises(SchemaError):
            producer.write({"x": "what the first run wrote counts"})
        writer.write(b"4")
    read = list(records.read(tmp_path))
    assert read[:2] == [b"0", b"4"]
    assert len(read) == 5
    assert [shard["records"] for shard in manifest_of(tmp_path)["shards"]] == [2, 2, 1]


def test_without_resume_what_was_left_is_removed(tmp_path):
    fail_after(lambda writer: writer.write(b"0"), tmp_path, resume=True)
    assert hidden(tmp_path)
    with ShardedWriter(tmp_path) as writer:
        assert writer.count == 0
        writer.write(b"1")
    assert list(records.read(tmp_path)) == [b"1"]
    assert hidden(tmp_path) == []


def test_resume_of_a_set_that_is_complete_has_nothing_to_do(tmp_path):
    def run():
        with ShardedWriter(tmp_path, shards=2, resume=True) as writer:
            for i in range(writer.count, 5):
                writer.write(b"%d" % i)
            with writer.producer("a") as producer:
                for i in range(producer.count, 5):
                    producer.write(b"a%d" % i, key=i)

    run()
    first = manifest_of(tmp_path)
    run()
    assert manifest_of(tmp_path) == first
    assert hidden(tmp_path) == []
    with ShardedWriter(tmp_path, resume=True) as writer:
        with pytest.raises(UsageError, match=r"complete: 10 records in 2 shards.*\n.*without resume"):
            writer.write(b"more")
        with pytest.raises(UsageError, match="complete"):
            writer.producer("b").write_batch({"x": [1]})
    assert manifest_of(tmp_path) == first


def test_a_part_that_is_torn_stops_the_commit(tmp_path):
    writer = ShardedWriter(tmp_path)
    for n in (1, 2):
        with writer.producer("a") as producer:
            producer.write(b"%d" % n, key=n)
    (part,) = tmp_path.glob(".data.writing-*/named-*/000001.part")
    part.write_bytes(part.read_bytes()[:-1])
    with pytest.raises(WriteError, match=r"producer 'a' \(process \d+\) left a record that is not whole"):
        writer.close()
    assert visible(tmp_path) == []
    with ShardedWriter(tmp_path, resume=True) as writer:
        producer = writer.producer("a")
        assert (producer.count, producer.last_key) == (1, 1)
        producer.write(b"2", key=2)
    assert list(records.read(tmp_path)) == [b"1", b"2"]

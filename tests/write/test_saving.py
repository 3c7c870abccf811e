"""save_tfrecords: a dataset as a set of TFRecord files."""

from __future__ import annotations

import os
import signal
import time
from functools import partialmethod

import numpy as np
import pytest

import feedline as fl
from feedline import Dataset, SchemaError, UsageError, records
from feedline.iterator import DatasetIterator
from feedline.write import sharded


def files(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.suffix == ".tfrecord"}


take_block = DatasetIterator.take_block


def example(n):
    rng = np.random.default_rng(int(n))
    return {
        "n": n,
        "image": rng.integers(0, 255, (4, 4), np.uint8),
        "words": rng.integers(0, 9, int(n) % 5),
        "name": f"number {n}",
    }


FEATURES = {
    "n": fl.FixedLenFeature([], "int64"),
    "image": fl.RawFeature([4, 4], "uint8"),
    "words": fl.VarLenFeature("int64"),
    "name": fl.FixedLenFeature([], "string"),
}


def test_elements_are_read_back_in_their_order(tmp_path):
    Dataset.range(100).map(example).save_tfrecords(tmp_path, shards=3)
    assert [records.count(path) for path in records.resolve(tmp_path)] == [34, 33, 33]
    rows = list(Dataset.from_tfrecords(tmp_path, FEATURES))
    assert len(rows) == 100
    for n, row in enumerate(rows):
        wanted = example(n)
        assert (int(row["n"]), row["name"]) == (n, wanted["name"].encode())
        np.testing.assert_array_equal(row["image"], wanted["image"])
        np.testing.assert_array_equal(row["words"], wanted["words"])


def test_tensorflow_reads_what_was_saved(tmp_path):
    tf = pytest.importorskip("tensorflow")
    Dataset.range(20).map(example).save_tfrecords(tmp_path, shards=2)
    found = tf.data.TFRecordDataset(sorted(map(str, tmp_path.glob("*.tfrecord"))))
    features = {"n": tf.io.FixedLenFeature([], tf.int64), "name": tf.io.FixedLenFeature([], tf.string)}
    parsed = [tf.io.parse_single_example(record, features) for record in found]
    assert [int(row["n"]) for row in parsed] == list(range(20))
    assert parsed[7]["name"].numpy() == b"number 7"


def test_the_bytes_do_not_depend_on_the_number_of_workers(tmp_path):
    ds = Dataset.range(300).map(example).shuffle(50, seed=3, reshuffle_each_iteration=False)
    wanted = None
    for workers in (None, 0, 1, 2):
        place = tmp_path / str(workers)
        ds.save_tfrecords(place, shards=4, workers=workers)
        wanted = wanted or files(place)
        assert len(wanted) == 4
        assert files(place) == wanted


@pytest.mark.parametrize("kind", ["examples", "bytes", "lists of texts"])
def test_nor_do_they_where_shards_are_limited_by_their_size(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(sharded, "_SHARD_BYTES", 3000)
    make = {
        "examples": example,
        "bytes": lambda n: b"x" * (int(n) ** 2 % 701),
        "lists of texts": lambda n: {"words": [f"word {n}"] * (1 + int(n) % 4)},
    }[kind]
    ds = Dataset.range(300).map(make)
    wanted = None
    for block_rows, workers in [(16384, None), (1, None), (7, 0), (16384, 2)]:
        monkeypatch.setattr(DatasetIterator, "take_block", partialmethod(take_block, block_rows))
        place = tmp_path / f"{block_rows}-{workers}"
        ds.save_tfrecords(place, workers=workers)
        wanted = wanted or files(place)
        assert files(place) == wanted
    sizes = [len(wanted[name]) for name in sorted(wanted)]
    assert len(sizes) > 5
    assert max(sizes) <= 3000
    largest = max(len(record) for record in records.read(place)) + 16
    assert min(sizes[:-1]) > 3000 - largest


def test_a_record_larger_than_a_shard_may_be_has_one_for_itself(tmp_path, monkeypatch):
    monkeypatch.setattr(sharded, "_SHARD_BYTES", 100)
    sizes = [10, 500, 10, 10, 600, 700]
    Dataset.range(6).map(lambda n: b"x" * sizes[int(n)]).save_tfrecords(tmp_path)
    found = [[len(record) for record in records.read(path)] for path in records.resolve(tmp_path)]
    assert found == [[10], [500], [10, 10], [600], [700]]


def test_a_killed_worker_changes_nothing(tmp_path):
    flag = tmp_path / "killed"

    def fragile(n):
        if n == 50 and not flag.exists():
            flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return example(n)

    Dataset.range(200).map(fragile).save_tfrecords(tmp_path / "a", shards=2, workers=2)
    Dataset.range(200).map(example).save_tfrecords(tmp_path / "b", shards=2)
    assert flag.exists()
    assert files(tmp_path / "a") == files(tmp_path / "b")


def test_bytes_are_saved_as_they_are(tmp_path):
    wanted = [bytes([n]) * n for n in range(100)]
    Dataset.from_generator(lambda: iter(wanted)).save_tfrecords(tmp_path, shards=2)
    assert list(Dataset.from_tfrecords(tmp_path)) == wanted


def test_a_dataset_of_files_is_saved_into_other_shards(tmp_path):
    Dataset.range(10).map(example).save_tfrecords(tmp_path / "a", shards=2)
    Dataset.from_tfrecords(tmp_path / "a").save_tfrecords(tmp_path / "b", shards=3)
    assert list(Dataset.from_tfrecords(tmp_path / "b")) == list(Dataset.from_tfrecords(tmp_path / "a"))


def test_ragged_rows_are_saved(tmp_path):
    ds = Dataset.range(6).map(lambda n: {"words": np.full(int(n), n), "n": n}).padded_batch(2).unbatch()
    ragged = Dataset.from_tensor_slices({"r": fl.Ragged(np.arange(6.0), [0, 2, 2, 6])})
    ds.save_tfrecords(tmp_path / "a")
    ragged.save_tfrecords(tmp_path / "b")
    rows = Dataset.from_tfrecords(tmp_path / "b", {"r": fl.RawFeature([None], "float64")})
    assert [row["r"].tolist() for row in rows] == [[0, 1], [], [2, 3, 4, 5]]
    assert records.count(tmp_path / "a") == 6


@pytest.mark.parametrize(
    "ds",
    [
        Dataset.range(3),
        Dataset.range(3).map(lambda n: (n, n)),
        Dataset.range(3).map(lambda n: {"a": {"b": n}}),
    ],
)
def test_what_no_example_can_hold_is_refused(tmp_path, ds):
    with pytest.raises(UsageError, match="save_tfrecords: an element must be a dict of features, or bytes"):
        ds.save_tfrecords(tmp_path)
    assert os.listdir(tmp_path) == []


def test_an_infinite_dataset_is_refused(tmp_path):
    with pytest.raises(UsageError, match="infinite"):
        Dataset.range(3).repeat().save_tfrecords(tmp_path)


def test_an_error_leaves_nothing(tmp_path):
    def fails(n):
        if n == 90:
            raise ValueError("ninety")
        return {"n": n}

    for workers in (0, 2):
        with pytest.raises(ValueError, match="ninety"):
            Dataset.range(100).map(fails).save_tfrecords(tmp_path, workers=workers)
        assert os.listdir(tmp_path) == []


def test_numbers_of_dimensions_that_change_are_refused(tmp_path):
    ds = Dataset.range(1, 4).map(lambda n: {"image": np.zeros((2,) * int(n))})
    with pytest.raises(SchemaError, match="'image'"):
        ds.save_tfrecords(tmp_path)
    assert os.listdir(tmp_path) == []


def test_workers_run_the_functions(tmp_path):
    met = tmp_path / "met"
    met.mkdir()

    def meet(n):
        (met / str(os.getpid())).touch()
        until = time.monotonic() + 60
        while len(os.listdir(met)) < 2 and time.monotonic() < until:  # one may take long to start
            time.sleep(0.001)
        return {"pid": os.getpid(), "n": n}

    Dataset.range(200).map(meet).save_tfrecords(tmp_path / "set", workers=2)
    rows = Dataset.from_tfrecords(tmp_path / "set", {"pid": fl.FixedLenFeature([], "int64")})
    pids = {int(row["pid"]) for row in rows}
    assert len(pids) == 2
    assert os.getpid() not in pids

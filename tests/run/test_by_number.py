"""Rows that can be read anywhere: workers are sent their numbers."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import feedline as fl
from feedline import AUTOTUNE, Dataset
from feedline.testing import assert_same, check_laws

FEATURES = {"number": fl.FixedLenFeature((), np.int64), "x": fl.FixedLenFeature((250,), np.float32)}
COUNT = 40


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    tf = pytest.importorskip("tensorflow")
    folder = tmp_path_factory.mktemp("files")
    numbers = iter(range(COUNT))
    for name in ("a", "b"):
        path = str(folder / f"{name}.tfrecord")
        with tf.io.TFRecordWriter(path) as writer:
            for _ in range(COUNT // 2):
                number = next(numbers)
                row = {"number": number, "x": np.full(250, number, np.float32)}
                writer.write(fl.example.encode(row))
        fl.records.index(path)
    return sorted(map(str, folder.glob("*.tfrecord")))


def double(row):
    return {"pid": os.getpid(), "x": row["x"] * 2}


def in_one_order(ds, seed=None):
    return ds.shuffle(seed=seed, reshuffle_each_iteration=False)


READERS = {
    "shuffled": lambda ds: in_one_order(ds, seed=1),
    "shuffled by a seed of its own": lambda ds: in_one_order(ds),
    "a shard of the shuffled": lambda ds: in_one_order(ds).shard(3, 1),
    "batches, shuffled": lambda ds: in_one_order(ds.batch(3, drop_remainder=True)),
    "the rest": lambda ds: ds.skip(7),
}
each_reader = pytest.mark.parametrize("reader", READERS.values(), ids=READERS)


@each_reader
def test_workers_give_what_this_process_gives(files, reader):
    read = reader(Dataset.from_tfrecords(files, FEATURES))
    found = list(read.map(double, 2))
    assert_same([row["x"] for row in found], [row["x"] for row in read.map(double)])
    assert os.getpid() not in {int(row["pid"]) for row in found}


def test_only_numbers_leave_this_process(files):
    ds = Dataset.from_tfrecords(files, FEATURES).shuffle(seed=1).map(double, 2)
    list(ds)
    (read,) = [row for row in ds.stats().rows if row.step.startswith("shuffle")]
    assert (read.elements, read.bytes) == (COUNT, 8 * COUNT)


@pytest.mark.parametrize("calls", [2, AUTOTUNE])
def test_the_laws_hold(files, calls):
    def last_digit(row):
        return row["number"] % 10, row["x"][:2] + fl.rng().random()

    source = Dataset.from_tfrecords(files, FEATURES)
    check_laws(lambda ds: ds.shuffle(seed=3).map(last_digit, calls), source.take(9))
    check_laws(lambda ds: ds.skip(30).map(last_digit, calls), source)


def test_a_state_taken_with_workers_serves_without_them(files):
    read = Dataset.from_tfrecords(files, FEATURES).shuffle()
    with iter(read.map(number, 2)) as elements:
        begun = [int(next(elements)) for _ in range(11)]
        state = elements.state_dict()
    for calls in (2, None):
        with iter(read.map(number, calls)) as elements:
            elements.load_state_dict(state)
            assert sorted(begun + [int(x) for x in elements]) == list(range(COUNT))


def test_data_in_memory_stays_here():
    ds = Dataset.from_tensor_slices(np.arange(50.0)).shuffle(seed=1).map(lambda x: x * 2, 2)
    assert sorted(map(float, ds)) == list(range(0, 100, 2))


def test_a_damaged_record_fails_in_its_place(files, tmp_path):
    damaged = tmp_path / "damaged.tfrecord"
    data = bytearray(Path(files[0]).read_bytes())
    damaged.write_bytes(data)
    fl.records.index(str(damaged))
    times = damaged.stat()
    data[len(data) // 2] ^= 255
    damaged.write_bytes(data)
    os.utime(damaged, ns=(times.st_atime_ns, times.st_mtime_ns))
    read = Dataset.from_tfrecords(str(damaged), FEATURES).skip(2)
    here, there = ([int(x) for x in ds.ignore_errors()] for ds in (read.map(number), read.map(number, 2)))
    assert here == there
    assert len(here) == 17


def number(row):
    return row["number"]

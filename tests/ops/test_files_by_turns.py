"""interleave over files too large to be read whole, whose records are decoded in the order of their turns."""

from __future__ import annotations

import gzip
import os

import numpy as np
import pytest

import feedline as fl
from feedline import AUTOTUNE, Dataset, example
from feedline._native import frame
from feedline.testing import assert_same, check_laws
from tests.ops.oracle import tf
from tests.ops.small_and_large import FIXED, RAGGED, events, one_by_one, together

LARGE = 4000  # bytes of a record, so that 20 make a file that is not small


def data(begin: int, count: int) -> bytes:
    rows = (
        {"id": n, "name": b"%d" % n * (LARGE // 5), "tags": [b"t"] * (n % 3)} for n in range(begin, count)
    )
    return b"".join(frame(example.encode(row)) for row in rows)


def write_all(directory, sizes) -> list[str]:
    """A file for each size; record n of file i has the id 10000 + 1000 * i + n."""
    paths = [directory / f"{number:02}.tfrecord" for number in range(len(sizes))]
    for number, (path, size) in enumerate(zip(paths, sizes, strict=True)):
        begin = 10_000 + 1000 * number
        path.write_bytes(data(begin, begin + size))
    return list(map(str, paths))


SIZES = [40, 25, 60, 33, 21, 47, 30, 25]


@pytest.mark.parametrize("cycle", [(2, 1), (3, 2), (4, 5), (8, 1), (16, 1)], ids=str)
def test_the_order_is_that_of_tf_data(tmp_path, cycle):
    paths = write_all(tmp_path, SIZES)
    theirs = tf.data.Dataset.from_tensor_slices(paths).interleave(tf.data.TFRecordDataset, *cycle)
    assert list(together(paths, None, *cycle)) == list(theirs.as_numpy_iterator())


@pytest.mark.parametrize("reads", [2, 3, AUTOTUNE])
def test_num_parallel_reads_has_the_order_of_tf_data(tmp_path, reads):
    paths = write_all(tmp_path, SIZES)
    together = os.cpu_count() if reads == AUTOTUNE else reads
    theirs = tf.data.Dataset.from_tensor_slices(paths).interleave(tf.data.TFRecordDataset, together)
    ours = Dataset.from_tfrecords(paths, num_parallel_reads=reads)
    assert sorted(ours) == sorted(theirs.as_numpy_iterator())
    if reads != AUTOTUNE:
        assert list(ours) == list(theirs.as_numpy_iterator())


@pytest.mark.parametrize("features", [None, FIXED, RAGGED], ids=["bytes", "fixed", "ragged"])
@pytest.mark.parametrize("cycle", [(2, 1), (3, 7), (8, 1)], ids=str)
def test_files_by_turns_give_what_they_give_one_by_one(tmp_path, features, cycle):
    paths = write_all(tmp_path, SIZES)
    assert_same(list(together(paths, features, *cycle)), list(one_by_one(paths, features, *cycle)))
    shuffled = [make(paths, features, *cycle).shuffle(50, seed=1) for make in (together, one_by_one)]
    assert_same(*map(list, shuffled))


def test_small_empty_and_compressed_files_may_be_among_them(tmp_path):
    paths = write_all(tmp_path, [40, 2, 30, 0, 25, 25, 3, 30, 40, 1])
    with open(paths[4], "rb") as file:
        plain = file.read()
    with open(paths[4], "wb") as file:
        file.write(gzip.compress(plain))
    for cycle in ((2, 1), (3, 2), (5, 1)):
        assert_same(list(together(paths, FIXED, *cycle)), list(one_by_one(paths, FIXED, *cycle)))


@pytest.mark.parametrize("features", [None, FIXED, RAGGED], ids=["bytes", "fixed", "ragged"])
@pytest.mark.parametrize("cycle", [(2, 1), (3, 2)], ids=str)
def test_files_by_turns_obey_the_laws(tmp_path, features, cycle):
    paths = write_all(tmp_path, [25, 21, 22, 24])
    check_laws(
        lambda ds: ds.interleave(lambda path: Dataset.from_tfrecords(path, features), *cycle),
        Dataset.from_tensor_slices(paths),
    )


def test_a_state_taken_at_any_element_goes_on_there(tmp_path):
    paths = write_all(tmp_path, [25, 40, 22, 31])
    dataset = together(paths, FIXED, 2, 3)
    everything = [int(element["id"]) for element in dataset]
    iterator = iter(dataset)
    for passed in range(len(everything) + 1):
        resumed = iter(together(paths, FIXED, 2, 3))
        resumed.load_state_dict(iterator.state_dict())
        assert [int(element["id"]) for element in resumed] == everything[passed:]
        next(iterator, None)


def flip(path: str, at: int) -> None:
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))


@pytest.mark.parametrize("features", [None, FIXED, RAGGED], ids=["bytes", "fixed", "ragged"])
@pytest.mark.parametrize("cycle", [(2, 1), (3, 2), (4, 1)], ids=str)
def test_what_is_wrong_with_a_file_is_raised_in_its_place(tmp_path, features, cycle):
    paths = write_all(tmp_path, SIZES)
    flip(paths[1], 50_000)
    flip(paths[2], 3)
    os.truncate(paths[3], 70_001)
    os.remove(paths[4])
    with open(paths[5], "ab") as file:
        file.write(frame(example.encode({"name": b"no id"})) + data(1, 9))
    found = events(together(paths, features, *cycle))
    assert_same(found, events(one_by_one(paths, features, *cycle)))
    assert sum(isinstance(event, tuple) for event in found) >= 4


def test_a_file_of_another_kind_is_refused_in_its_place(tmp_path):
    paths = write_all(tmp_path, [30] * 6)

    def read(path):
        features = {"id": fl.FixedLenFeature((), "int64")} if b"/03." in path else FIXED
        return Dataset.from_tfrecords(path, features)

    source = Dataset.from_tensor_slices(paths)
    refused, expected = (events(one.interleave(read, 2)) for one in (source, source.map(lambda path: path)))
    assert_same(refused, expected)
    assert [event[0] for event in refused if isinstance(event, tuple)] == ["WrongKind"]


def test_files_of_other_sizes_come_as_in_tf_data_whatever_the_sizes(tmp_path):
    random = np.random.default_rng(4)
    for trial in range(5):
        (tmp_path / str(trial)).mkdir()
        paths = write_all(tmp_path / str(trial), random.integers(0, 45, 9).tolist())
        cycle = int(random.integers(2, 10)), int(random.integers(1, 4))
        theirs = tf.data.Dataset.from_tensor_slices(paths).interleave(tf.data.TFRecordDataset, *cycle)
        assert list(together(paths, None, *cycle)) == list(theirs.as_numpy_iterator()), cycle

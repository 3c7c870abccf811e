"""interleave over many small TFRecord files, which are read together: as if each were read by itself."""

from __future__ import annotations

import gc
import gzip
import os
import threading
import time

import numpy as np
import pytest

import feedline as fl
from feedline import Dataset, example
from feedline._native import frame
from feedline.spec import STRING, ArraySpec
from feedline.testing import assert_same, check_laws
from tests.ops.oracle import tf
from tests.ops.small_and_large import FIXED, RAGGED, events, one_by_one, together


def records(begin: int, count: int) -> list[bytes]:
    rows = range(begin, begin + count)
    return [example.encode({"id": n, "name": b"n%d" % n, "tags": [b"t"] * (n % 3)}) for n in rows]


def framed(begin: int, count: int) -> bytes:
    return b"".join(map(frame, records(begin, count)))


def write_all(directory, sizes) -> list[str]:
    """A file for each size; record n of file i has the id 1000 * i + n."""
    paths = [directory / f"{number:04}.tfrecord" for number in range(len(sizes))]
    for number, (path, size) in enumerate(zip(paths, sizes, strict=True)):
        path.write_bytes(framed(1000 * number, size))
    return [str(path) for path in paths]


@pytest.fixture
def paths(tmp_path) -> list[str]:
    """Of all sizes: many are empty, some compressed, and one is too large to be read whole."""
    sizes = np.random.default_rng(1).integers(0, 7, 90).tolist()
    made = write_all(tmp_path, sizes)
    for number in (3, 40, 41):
        with open(made[number], "r+b") as file:
            data = file.read()
            file.seek(0)
            file.write(gzip.compress(data))
            file.truncate()
    with open(made[50], "wb") as file:
        file.write(framed(50_000, 900) + frame(example.encode({"id": 7, "name": b"x" * 80_000, "tags": []})))
    return made


@pytest.mark.parametrize("features", [None, FIXED, RAGGED], ids=["bytes", "fixed", "ragged"])
@pytest.mark.parametrize("cycle", [(1, 1), (3, 1), (16, 1), (16, 4), (200, 1), (200, 3)], ids=str)
def test_files_read_together_give_what_they_give_one_by_one(paths, features, cycle):
    assert_same(list(together(paths, features, *cycle)), list(one_by_one(paths, features, *cycle)))


@pytest.mark.parametrize("cycle", [(1, 1), (5, 2), (16, 1), (200, 3)], ids=str)
def test_the_order_is_that_of_tf_data(tmp_path, cycle):
    paths = write_all(tmp_path, np.random.default_rng(2).integers(0, 6, 70).tolist())
    theirs = tf.data.Dataset.from_tensor_slices(paths).interleave(tf.data.TFRecordDataset, *cycle)
    assert list(together(paths, None, *cycle)) == list(theirs.as_numpy_iterator())


def test_files_read_by_turns_come_in_the_order_of_tf_data(tmp_path):
    paths = write_all(tmp_path, np.random.default_rng(3).integers(0, 6, 70).tolist())
    theirs = tf.data.TFRecordDataset(paths, num_parallel_reads=4)
    assert list(Dataset.from_tfrecords(paths, num_parallel_reads=4)) == list(theirs.as_numpy_iterator())


@pytest.mark.parametrize("features", [None, FIXED, RAGGED], ids=["bytes", "fixed", "ragged"])
@pytest.mark.parametrize("cycle", [(1, 1), (4, 2), (40, 1)], ids=str)
def test_files_read_together_obey_the_laws(tmp_path, features, cycle):
    paths = write_all(tmp_path, [2, 0, 3, 1, 4, 0, 0, 5, 2, 1, 3, 3, 2, 4, 1, 1, 2, 3])
    read = fl.Dataset.from_tfrecords
    check_laws(
        lambda ds: ds.interleave(lambda path: read(path, features), *cycle), Dataset.from_tensor_slices(paths)
    )


def test_a_state_taken_at_any_element_goes_on_there(paths):
    dataset = together(paths[:30], FIXED, 7, 2)
    everything = [int(element["id"]) for element in dataset]
    iterator = iter(dataset)
    for passed in range(len(everything) + 1):
        resumed = iter(together(paths[:30], FIXED, 7, 2))
        resumed.load_state_dict(iterator.state_dict())
        assert [int(element["id"]) for element in resumed] == everything[passed:]
        next(iterator, None)


def test_results_in_any_order_are_all_there(paths):
    source = Dataset.from_tensor_slices(paths)
    loose = source.interleave(lambda p: Dataset.from_tfrecords(p, FIXED), 16, 1, -1, deterministic=False)
    strict = together(paths, FIXED, 16)
    assert sorted(int(x["id"]) for x in loose) == sorted(int(x["id"]) for x in strict)


def damage(paths) -> None:
    def change(number, how):
        with open(paths[number], "rb") as file:
            data = bytearray(file.read())
        with open(paths[number], "wb") as file:
            file.write(how(data))

    def flipped(data):
        data[len(data) // 2 + 20] ^= 1
        return data

    change(5, flipped)
    change(20, lambda data: data[:-3])
    change(21, lambda data: b"not a TFRecord file at all, but long enough for a header")
    change(33, lambda data: data + frame(example.encode({"name": b"no id"})))
    os.remove(paths[10])
    os.remove(paths[34])


@pytest.mark.parametrize("features", [None, FIXED, RAGGED], ids=["bytes", "fixed", "ragged"])
@pytest.mark.parametrize("cycle", [(1, 1), (3, 2), (16, 1), (100, 1)], ids=str)
def test_damaged_and_missing_files_fail_in_their_place(tmp_path, features, cycle):
    paths = write_all(tmp_path, [4] * 60)
    damage(paths)
    found = events(together(paths, features, *cycle))
    assert_same(found, events(one_by_one(paths, features, *cycle)))
    assert sum(isinstance(event, tuple) for event in found) >= 5


def test_a_damaged_file_is_read_past_its_damage_with_skip(tmp_path):
    paths = write_all(tmp_path, [4] * 40)
    damage(paths)
    paths = [path for path in paths if os.path.exists(path)]
    with pytest.warns(RuntimeWarning, match="skipped"):
        found = list(together(paths, None, 16, on_corrupt="skip"))
    with pytest.warns(RuntimeWarning, match="skipped"):
        assert found == list(one_by_one(paths, None, 16, on_corrupt="skip"))


def test_datasets_of_another_kind_are_refused_in_their_place(tmp_path):
    paths = write_all(tmp_path, [3] * 20)

    def read(path):
        features = {"id": fl.FixedLenFeature((), "int64")} if b"0011" in path else FIXED
        return Dataset.from_tfrecords(path, features)

    def found(source):
        return events(source.interleave(read, 4))

    source = Dataset.from_tensor_slices(paths)
    refused = found(source)
    assert_same(refused, found(source.map(lambda path: path)))
    assert [event[0] for event in refused if isinstance(event, tuple)] == ["WrongKind"]


def test_a_function_that_fails_does_so_in_its_place(tmp_path):
    paths = write_all(tmp_path, [3] * 40)

    def read(path):
        if b"0013" in path or b"0014" in path:
            raise KeyError(path)
        return Dataset.from_tfrecords(path, FIXED)

    source = Dataset.from_tensor_slices(paths)
    expected = events(source.map(lambda path: path).interleave(read, 5))
    assert_same(events(source.interleave(read, 5)), expected)


def test_a_pipe_loses_nothing(tmp_path):
    paths = write_all(tmp_path, [3] * 20)
    os.remove(paths[12])
    os.mkfifo(paths[12])

    def write():
        with open(paths[12], "wb") as pipe:
            pipe.write(framed(12_000, 3))

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    ids = [int(element["id"]) for element in together(paths, FIXED, 1)]
    writer.join(60)
    assert ids == [1000 * number + row for number in range(20) for row in range(3)]


def test_the_function_is_called_for_a_bounded_number_of_files_ahead(tmp_path):
    paths = write_all(tmp_path, [1] * 1000)
    calls = []

    def read(path):
        calls.append(path)
        return Dataset.from_tfrecords(path, FIXED)

    for given in (1, 100, 500):
        calls.clear()
        assert len(list(Dataset.from_tensor_slices(paths).interleave(read, 4).take(given))) == given
        assert len(calls) <= given + 128


def test_a_slow_function_is_not_called_ahead(tmp_path):
    paths = write_all(tmp_path, [2] * 20)
    calls = []

    def read(path):
        calls.append(path)
        time.sleep(0.006)
        return Dataset.from_tfrecords(path, FIXED)

    iterator = iter(Dataset.from_tensor_slices(paths).flat_map(read))
    for element in range(40):
        next(iterator)
        assert len(calls) <= element // 2 + 2


def test_an_input_that_may_wait_is_asked_for_one_element_at_a_time(tmp_path):
    paths = write_all(tmp_path, [20_000, *[2] * 20])
    asked = []

    def generate():
        for path in paths:
            asked.append(path)
            yield path

    source = Dataset.from_generator(generate, output_signature=ArraySpec((), STRING))
    next(iter(source.flat_map(lambda path: Dataset.from_tfrecords(path, FIXED))))
    assert len(asked) == 1


def test_stats_count_every_file_and_row(tmp_path):
    sizes = [3, 0, 2, 5] * 10
    dataset = together(write_all(tmp_path, sizes), FIXED, 4)
    list(dataset)
    (step,) = [row for row in dataset.stats().rows if "from_tfrecords" in row.step]
    assert step.elements == sum(sizes)


def test_what_is_held_does_not_grow_with_the_number_of_files(tmp_path):
    paths = write_all(tmp_path, [2] * 1200)

    def kept(count: int) -> int:
        gc.collect()
        before = len(gc.get_objects())
        iterator = iter(together(paths[:count], FIXED, 16))
        for _ in range(2 * count - 1):
            next(iterator)
        gc.collect()
        return len(gc.get_objects()) - before

    kept(200)  # what is made once
    assert kept(1200) - kept(200) < 100


def test_files_are_closed_once_they_are_read(tmp_path):
    def is_small(fd: str) -> bool:
        try:
            return os.readlink(f"/proc/self/fd/{fd}").startswith(str(tmp_path))
        except OSError:
            return False

    paths = write_all(tmp_path, [2] * 600)
    most = 0
    for _ in together(paths, FIXED, 512):
        most = max(most, sum(map(is_small, os.listdir("/proc/self/fd"))))
    assert most <= 2

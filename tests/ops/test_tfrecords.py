"""from_tfrecords: what comes out of files, in which order, from where on, and what of damaged ones."""

from __future__ import annotations

import gzip
import json
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

import feedline as fl
from feedline import Dataset, example, records
from feedline._native import frame
from feedline.spec import STRING, ArraySpec
from feedline.testing import assert_same, check_laws

FEATURES = {
    "id": fl.FixedLenFeature((), "int64"),
    "x": fl.FixedLenFeature((3,), "float32"),
    "tags": fl.VarLenFeature("string"),
}


def row(number: int) -> dict:
    tags = [b"t%d" % i for i in range(number % 3)]
    return {"id": number, "x": np.arange(3, dtype="float32") + number, "tags": np.array(tags, object)}


def write(path, numbers, compress=False):
    data = b"".join(frame(example.encode(row(number))) for number in numbers)
    path.write_bytes(gzip.compress(data) if compress else data)
    return str(path)


@pytest.fixture
def files(tmp_path):
    paths = [write(tmp_path / "a.tfrecord", range(10)), write(tmp_path / "b.tfrecord", [])]
    paths.append(write(tmp_path / "c.tfrecord", range(10, 25), compress=True))
    return [*paths, write(tmp_path / "d.tfrecord", range(25, 40))]


def ids(dataset) -> list[int]:
    return [int(element["id"]) for element in dataset]


def test_elements_are_dicts_by_the_features_names(files):
    elements = list(Dataset.from_tfrecords(files, FEATURES))
    assert ids(elements) == list(range(40))
    assert_same(elements[5:6], [{**row(5), "id": np.int64(5)}])


def test_without_features_elements_are_the_records_bytes(files):
    assert list(Dataset.from_tfrecords(files)) == [example.encode(row(number)) for number in range(40)]


def test_it_obeys_the_laws(files):
    check_laws(lambda ds: ds, Dataset.from_tfrecords(files, FEATURES))
    check_laws(lambda ds: ds, Dataset.from_tfrecords(files))
    check_laws(lambda ds: ds, Dataset.from_tfrecords(files, FEATURES, num_parallel_reads=3))
    check_laws(lambda ds: ds.batch(7), Dataset.from_tfrecords(files, FEATURES))


def test_it_obeys_the_laws_with_an_index(files):
    plain = [path for path in files if "c.tfrecord" not in path]
    for path in plain:
        records.index(path)
    elements = check_laws(lambda ds: ds, Dataset.from_tfrecords(plain, FEATURES))
    assert len(elements) == 25
    check_laws(lambda ds: ds.shuffle(seed=3), Dataset.from_tfrecords(plain, FEATURES))


@pytest.mark.parametrize("reads", [None, 1, 2, 3, 7])
def test_files_are_read_by_turns_as_tf_data_does(files, reads):
    tf = pytest.importorskip("tensorflow")
    plain = [path for path in files if "c.tfrecord" not in path]
    theirs = tf.data.TFRecordDataset(plain, num_parallel_reads=reads)
    assert list(Dataset.from_tfrecords(plain, num_parallel_reads=reads)) == list(theirs.as_numpy_iterator())


def test_files_may_be_a_dataset_of_paths(files):
    assert ids(Dataset.from_tfrecords(Dataset.from_tensor_slices(files), FEATURES)) == list(range(40))


def test_values_match_tf_data(files):
    tf = pytest.importorskip("tensorflow")
    spec = {
        "id": tf.io.FixedLenFeature((), tf.int64),
        "x": tf.io.FixedLenFeature((3,), tf.float32),
        "tags": tf.io.RaggedFeature(tf.string),
    }
    theirs = tf.data.TFRecordDataset(files[0]).map(lambda r: tf.io.parse_single_example(r, spec))
    assert_same(Dataset.from_tfrecords(files[0], spec), theirs.as_numpy_iterator())


def test_values_of_changing_number_are_ragged_once_batched(files):
    batch = next(iter(Dataset.from_tfrecords(files, FEATURES).batch(4)))
    assert isinstance(batch["tags"], fl.Ragged)
    assert batch["tags"].to_list() == [[], [b"t0"], [b"t0", b"t1"], []]
    spec = Dataset.from_tfrecords(files, FEATURES).batch(4).element_spec
    assert spec["tags"].shape == (None, None)
    assert spec["x"].shape == (None, 3)


def test_the_length_is_known_with_an_index_beside_each_file(files):
    plain = [path for path in files if "c.tfrecord" not in path]
    dataset = Dataset.from_tfrecords(plain, FEATURES)
    assert dataset.cardinality() == fl.UNKNOWN_CARDINALITY
    with pytest.raises(TypeError, match="cannot be indexed"):
        dataset[0]
    for path in plain:
        records.index(path)
    dataset = Dataset.from_tfrecords(plain, FEATURES)
    assert len(dataset) == 25
    assert int(dataset[12]["id"]) == 27
    assert int(dataset[-1]["id"]) == 39
    assert ids(dataset[8:12]) == [8, 9, 25, 26]


def test_an_index_that_lies_is_found_out(files, tmp_path):
    records.index(files[0])
    dataset = Dataset.from_tfrecords(files[0], FEATURES)
    assert len(dataset) == 10
    write(tmp_path / "a.tfrecord", range(100, 103))
    with pytest.raises(fl.CorruptRecord, match="the index says"):
        dataset[5]


def damage(path, at):
    data = bytearray(Path(path).read_bytes())
    data[at] ^= 1
    Path(path).write_bytes(data)


@pytest.mark.parametrize("reads", [None, 2])
def test_a_damaged_record_raises_after_those_in_front_of_it(files, reads):
    damage(files[0], 3 * (len(frame(example.encode(row(0)))) + 8))
    seen = []
    rows = Dataset.from_tfrecords(files[0], FEATURES, num_parallel_reads=reads)
    with pytest.raises(fl.CorruptRecord) as caught:
        seen.extend(int(element["id"]) for element in rows)
    assert seen == list(range(caught.value.record))
    assert 0 < caught.value.record < 10


def test_damaged_records_are_skipped_when_asked(files):
    damage(files[3], -10)
    with pytest.warns(RuntimeWarning, match="1 damaged record"):
        assert ids(Dataset.from_tfrecords(files, FEATURES, on_corrupt="skip")) == list(range(39))


def test_the_iterator_goes_on_after_a_damaged_record(files):
    damage(files[0], 60)  # the payload of a record
    rows = iter(Dataset.from_tfrecords(files, FEATURES))
    seen, errors = [], 0
    while True:
        try:
            seen.append(int(next(rows)["id"]))
        except fl.CorruptRecord:
            errors += 1
        except StopIteration:
            break
    assert errors == 1
    assert len(seen) == 39


def test_the_state_is_small_and_does_not_grow_with_what_was_read(tmp_path):
    path = write(tmp_path / "a.tfrecord", range(5000))
    rows = iter(Dataset.from_tfrecords(path, FEATURES))
    for _ in islice(rows, 4321):
        pass
    state = json.dumps(rows.state_dict())
    assert len(state) < 300
    again = iter(Dataset.from_tfrecords(path, FEATURES))
    again.load_state_dict(json.loads(state))
    assert ids(again) == list(range(4321, 5000))


def test_very_many_files_may_be_interleaved(tmp_path):
    for number in range(60):
        write(tmp_path / f"{number:03}.tfrecord", range(number * 10, number * 10 + 10))
    paths = Dataset.list_files(str(tmp_path / "*.tfrecord"), shuffle=False)
    dataset = paths.interleave(lambda path: Dataset.from_tfrecords(path, FEATURES), cycle_length=60)
    found = ids(dataset)
    assert found[:60] == list(range(0, 600, 10))
    assert sorted(found) == list(range(600))


def test_wrong_arguments_are_refused(files):
    with pytest.raises(fl.UsageError, match="on_corrupt"):
        Dataset.from_tfrecords(files, on_corrupt="maybe")
    with pytest.raises(fl.UsageError, match="compression"):
        Dataset.from_tfrecords(files, compression="rar")
    with pytest.raises(fl.UsageError, match="no file matches"):
        Dataset.from_tfrecords("/nowhere/*.tfrecord")


def test_a_missing_file_is_told_when_it_is_read(files):
    with pytest.raises(FileNotFoundError):
        list(Dataset.from_tfrecords("/nowhere/a.tfrecord"))


# Rows that are picked: features of a fixed size come as tables, out of which columns are made later.

PICKED = {
    "near": {"id": fl.FixedLenFeature((), "int64"), "x": fl.FixedLenFeature((2,), "float32")},
    "far": {"x": fl.FixedLenFeature((100,), "float32"), "id": fl.FixedLenFeature((), "int64")},
    "raw": {"raw": fl.RawFeature((20, 10), "uint8"), "id": fl.FixedLenFeature((), "int64")},
    "text": {"text": fl.FixedLenFeature((), "string"), "id": fl.FixedLenFeature((), "int64")},
    "default": {
        "missing": fl.FixedLenFeature((64,), "float32", np.arange(64.0)),
        "ids": fl.VarLenFeature("int64"),
    },
    "missing": {"missing": fl.FixedLenFeature((64,), "float32", np.arange(64.0))},
    "tags": {"tags": fl.VarLenFeature("string"), "id": fl.FixedLenFeature((), "int64")},
    "whole": None,
}


@pytest.fixture(params=PICKED)
def picked(request, tmp_path):
    """A dataset whose rows may be tables, and one of the same rows that cannot."""
    features = PICKED[request.param]
    elements = [
        {
            "id": number,
            "x": np.arange(100 if request.param == "far" else 2, dtype="float32") + number,
            "raw": np.full(200, number % 256, "uint8").tobytes(),
            "text": b"t" * (number % 7 * 40),
            "tags": [b"tag"] * (number % 3),
        }
        for number in range(300)
    ]
    paths = []
    for part in range(3):
        data = b"".join(frame(example.encode(element)) for element in elements[part * 100 : part * 100 + 100])
        paths.append(tmp_path / f"{part}.tfrecord")
        paths[-1].write_bytes(data)
    read = Dataset.from_tfrecords([str(path) for path in paths], features)
    return read, read.map(lambda row: row)


def test_picked_rows_are_those_of_the_records(picked):
    read, same = picked
    assert_same(read.shuffle(20, seed=4), same.shuffle(20, seed=4))
    assert_same(
        read.skip(7).take(200).shard(2, 1).shuffle(1000, seed=4),
        same.skip(7).take(200).shard(2, 1).shuffle(1000, seed=4),
    )
    assert_same(read.repeat(30).shuffle(64, seed=2), same.repeat(30).shuffle(64, seed=2))
    check_laws(lambda ds: ds.shuffle(20, seed=4), read)


def test_rows_of_tables_may_be_mixed_with_others(picked):
    read, same = picked
    mixed = read.take(50).concatenate(same.skip(50)).shuffle(30, seed=1)
    assert_same(mixed, same.shuffle(30, seed=1))
    choices = Dataset.range(2).repeat(120)
    of_both = Dataset.choose_from_datasets([read, same], choices)
    assert_same(of_both, Dataset.choose_from_datasets([same, same], choices))


def test_a_record_that_does_not_fit_is_told_before_it_is_picked(tmp_path):
    good = frame(example.encode({"x": np.zeros(100, "float32")}))
    bad = frame(example.encode({"x": np.zeros(99, "float32")}))
    (tmp_path / "a.tfrecord").write_bytes(good * 10 + bad + good * 10)
    rows = Dataset.from_tfrecords(str(tmp_path / "a.tfrecord"), {"x": fl.FixedLenFeature((100,), "float32")})
    shuffled = iter(rows.shuffle(5, seed=1))
    with pytest.raises(fl.SchemaError, match=r"record 10.*99 values"):
        list(shuffled)
    assert_same(islice(rows.shuffle(5, seed=1).ignore_errors(), 100), [{"x": np.zeros(100, "float32")}] * 20)


def test_tables_live_as_long_as_rows_of_theirs(tmp_path):
    path = tmp_path / "a.tfrecord"
    path.write_bytes(b"".join(frame(example.encode({"x": np.full(1000, n, "float32")})) for n in range(2000)))
    batches = iter(
        Dataset.from_tfrecords(str(path), {"x": fl.FixedLenFeature((1000,), "float32")}).shuffle(9).batch(8)
    )
    kept = [next(batches) for _ in range(50)]
    batches.close()
    del batches
    for batch in kept:
        assert (batch["x"] == batch["x"][:, :1]).all()
    assert len({int(x) for batch in kept for x in batch["x"][:, 0]}) == 400


def misfits(tmp_path, values, bad):
    """Files of 1,000 records, of which some do not fit; and the place of each of those."""
    path = tmp_path / "a.tfrecord"
    path.write_bytes(b"".join(frame(example.encode({"x": values(number)})) for number in range(1000)))
    return str(path), [f"{path}: record {number} at byte" for number in bad]


MISFITS = {
    "list": (fl.ListFeature([], "uint8"), lambda n: 300 if n in (0, 500, 999) else n % 256),
    "float": (fl.ListFeature([2], "float16"), lambda n: [1.0, 1e9] if n in (0, 500, 999) else [0.5, 1.0]),
    "ragged": (fl.ListFeature([None], "uint8"), lambda n: [300] if n in (0, 500, 999) else [1] * (n % 3)),
    "raw": (fl.RawFeature([None], "int32"), lambda n: b"12345" if n in (0, 500, 999) else b"1234" * (n % 3)),
    "fixed": (fl.RawFeature([1], "int32"), lambda n: b"12345" if n in (0, 500, 999) else b"1234"),
}


@pytest.mark.parametrize("name", MISFITS)
@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("skip", [False, True])
def test_a_record_whose_values_do_not_fit_raises_in_its_place_and_the_others_come(
    tmp_path, name, indexed, skip
):
    feature, values = MISFITS[name]
    path, places = misfits(tmp_path, values, (0, 500, 999))
    if indexed:
        fl.records.index(path)
    read = Dataset.from_tfrecords(path, {"x": feature}, on_corrupt="skip" if skip else "raise")
    found, errors, at = [], [], []
    rows = iter(read)
    while True:
        try:
            found.append(next(rows))
        except StopIteration:
            break
        except fl.SchemaError as error:
            errors.append(str(error))
            at.append(len(found))
    assert at == [0, 499, 997]
    assert all(error.startswith(place) for error, place in zip(errors, places, strict=True))
    assert all("feature 'x'" in error and f"feedline inspect {path}" in error for error in errors)
    sound = [number for number in range(1000) if number not in (0, 500, 999)]
    wanted = [example.decode(example.encode({"x": values(number)}), {"x": feature}) for number in sound]
    assert_same(found, wanted)
    assert_same(read.ignore_errors(), wanted)
    assert sum(1 for _ in read.shuffle(10, seed=1).ignore_errors()) == 997


def test_reading_resumes_between_records_whose_block_holds_a_misfit(tmp_path):
    feature, values = MISFITS["list"]
    path, _ = misfits(tmp_path, values, ())
    read = Dataset.from_tfrecords(path, {"x": feature}).ignore_errors()
    check_laws(lambda ds: ds.take(520), read)
    rows = iter(read)
    first = [next(rows) for _ in range(498)]
    resumed = iter(read)
    resumed.set_state(rows.get_state())
    assert_same(first + list(resumed), list(read))


def test_records_in_memory_that_do_not_fit_are_told_by_number():
    records = [example.encode({"x": number}) for number in (1, 2, 300, 4)]
    with pytest.raises(fl.SchemaError, match="record 2 does not fit: feature 'x': holds 300") as caught:
        example.decode(records, {"x": fl.ListFeature([], "uint8")})
    assert caught.value.record == 2


@pytest.mark.parametrize("shape", [[0, 1 << 62, 4], [1 << 40, 0, 1 << 40], [-1, 0, 0]])
def test_a_hostile_shape_of_no_values_is_a_schema_error_with_its_place(tmp_path, shape):
    path = tmp_path / "a.tfrecord"
    path.write_bytes(frame(example.encode({"x": b"", "x/shape": shape})))
    with pytest.raises(fl.SchemaError, match=r"a\.tfrecord: record 0 at byte 0 .*'x/shape' says"):
        list(Dataset.from_tfrecords(str(path), {"x": fl.RawFeature([None, None, None], "uint8")}))


SETS = {
    "a directory": Dataset.from_tfrecords,
    "a pattern": lambda folder: Dataset.from_tfrecords(f"{folder}/*"),
    "a list": lambda folder: Dataset.from_tfrecords(sorted(map(str, folder.iterdir()))),
    "by turns": lambda folder: Dataset.from_tfrecords(folder, num_parallel_reads=4),
    "list_files": lambda folder: Dataset.list_files(f"{folder}/*", shuffle=False).interleave(
        Dataset.from_tfrecords, cycle_length=8
    ),
    "a shard": lambda folder: Dataset.from_tfrecords(folder).shard(2, 1),
    "more steps": lambda folder: (
        Dataset.from_tfrecords(folder).map(lambda record: record).shuffle(100).prefetch(2)
    ),
}


@pytest.mark.parametrize("make", SETS)
def test_the_first_batch_does_not_open_all_files(tmp_path, make):
    for number in range(1200):
        (tmp_path / f"{number:04}").write_bytes(frame(b"x") * 10)
    dataset = SETS[make](tmp_path)
    for number in range(400, 1200):  # who opens one of these fails
        (tmp_path / f"{number:04}").unlink()
    dataset.cardinality()
    dataset.explain()
    assert dataset.element_spec == ArraySpec((), STRING)
    assert len(next(iter(dataset.batch(32)))) == 32

"""What is written comes back with its dtype and shape, whoever writes it and however."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import feedline as fl
from feedline import AppendWriter, Dataset, SchemaError, ShardedWriter, TFRecordWriter, records
from feedline.records.features import ARRAY_DTYPES
from feedline.records.telling import index_path

DTYPES = [np.dtype(getattr(ml_dtypes, name, name)) for name in ARRAY_DTYPES]
SHAPES = [(), (3,), (0,), (2, 3), (0, 3), (2, 1, 2)]


class Append(AppendWriter):
    """Takes the arguments of the others."""

    def __init__(self, directory):
        directory.mkdir()
        super().__init__(directory / "a.tfrecord")


def one_file(directory, compression=None):
    directory.mkdir()
    return TFRecordWriter(directory / "a.tfrecord", compression=compression)


WRITERS = {
    "one": one_file,
    "gzip": lambda directory: one_file(directory, "GZIP"),
    "zlib": lambda directory: one_file(directory, "ZLIB"),
    "sharded": lambda directory: ShardedWriter(directory, shards=2),
    "sharded gzip": lambda directory: ShardedWriter(directory, compression="GZIP"),
    "append": Append,
}


def numbers(dtype, shape, seed=0):
    """Values that no narrower dtype holds."""
    bits = np.random.default_rng(seed).integers(0, 256, (*shape, dtype.itemsize), np.uint8)
    array = bits.reshape(-1).view(dtype).reshape(shape) if dtype.kind != "b" else bits[..., 0] < 128
    return np.where(array == array, array, np.ones((), dtype)).astype(dtype)  # NaN does not equal itself


def check(rows, read):
    read = list(read)
    assert len(read) == len(rows)
    for wanted, found in zip(rows, read, strict=True):
        assert found.keys() == wanted.keys()
        for key, value in wanted.items():
            if isinstance(value, str | bytes):
                assert found[key] == (value.encode() if isinstance(value, str) else value)
            else:
                np.testing.assert_array_equal(found[key], value, strict=True)


def columns(rows, as_ragged=False):
    lists = {key: [row[key] for row in rows] for key in rows[0]}
    if not as_ragged:
        return lists
    return {
        key: fl.Ragged(np.concatenate(column), np.cumsum([0, *map(len, column)]))
        for key, column in lists.items()
    }


def write(writer, rows, how):
    with writer:
        if how == "write":
            for row in rows:
                writer.write(row)
        elif how == "lists":
            writer.write_batch(columns(rows))
        else:
            writer.write_batch({key: np.stack(column) for key, column in columns(rows).items()})


@pytest.mark.parametrize("how", ["write", "lists", "arrays"])
@pytest.mark.parametrize("writer", WRITERS)
def test_arrays_of_every_dtype_and_shape_are_read_back(tmp_path, writer, how):
    rows = [
        {f"{dtype.name} {shape}": numbers(dtype, shape, seed)[()] for dtype in DTYPES for shape in SHAPES}
        for seed in range(3)
    ]
    write(WRITERS[writer](tmp_path / "set"), rows, how)
    check(rows, Dataset.from_tfrecords(tmp_path / "set", "auto"))
    check(rows, Dataset.from_tfrecords(str(tmp_path / "set" / "*.tfrecord"), "auto"))
    paths = sorted((tmp_path / "set").glob("*.tfrecord"))
    check(rows, Dataset.from_tfrecords(paths, "auto"))
    check(rows, Dataset.from_tfrecords((path for path in paths), "auto", num_parallel_reads=1))


@pytest.mark.parametrize("how", ["write", "lists"])
@pytest.mark.parametrize("writer", WRITERS)
def test_shapes_may_change_from_example_to_example(tmp_path, writer, how):
    sizes = [(2, 3), (4, 1), (0, 5), (2, 3)]
    rows = [
        {
            dtype.name: numbers(dtype, shape, seed),
            f"row {dtype.name}": numbers(dtype, shape[:1], seed),
            f"tall {dtype.name}": numbers(dtype, (shape[0], 2), seed),
            f"even {dtype.name}": numbers(dtype, (2, 2, 2), seed),
        }
        for seed, shape in enumerate(sizes)
        for dtype in DTYPES[:1]
    ]
    for dtype in DTYPES[1:]:
        for seed, shape in enumerate(sizes):
            rows[seed] |= {
                dtype.name: numbers(dtype, shape, seed),
                f"row {dtype.name}": numbers(dtype, shape[:1]),
            }
    write(WRITERS[writer](tmp_path / "set"), rows, how)
    read = Dataset.from_tfrecords(tmp_path / "set", "auto")
    check(rows, read)
    assert read.element_spec["uint8" if "uint8" in rows[0] else "bool"].shape == (None, None)
    told = records.infer_features(tmp_path / "set")
    assert told["float64"] == fl.RawFeature([None, None], "float64")
    assert told["row float64"] == fl.RawFeature([None], "float64")
    assert told["row int32"] == fl.ListFeature([None], "int32")
    assert told["row int64"] == fl.VarLenFeature("int64")
    assert told["even bool"] == fl.RawFeature([2, 2, 2], "bool")
    assert told["tall bool"] == fl.RawFeature([None, 2], "bool")


@pytest.mark.parametrize("writer", WRITERS)
def test_ragged_columns_are_read_back(tmp_path, writer):
    rows = [
        {"a": numbers(np.dtype(float), (n, 2), n), "b": numbers(np.dtype("i4"), (n,), n), "c": np.arange(n)}
        for n in (2, 0, 3)
    ]
    with WRITERS[writer](tmp_path / "set") as out:
        out.write_batch(columns(rows, as_ragged=True))
        out.write_batch({key: column[1:] for key, column in columns(rows, as_ragged=True).items()})
    check(rows + rows[1:], Dataset.from_tfrecords(tmp_path / "set", "auto"))


@pytest.mark.parametrize("how", ["write", "lists"])
@pytest.mark.parametrize("writer", WRITERS)
def test_python_values_are_what_they_were(tmp_path, writer, how):
    rows = [
        {
            "i": n,
            "f": n / 2,
            "t": n > 1,
            "s": f"é{n}",
            "b": bytes([n]),
            "l": [n, 2],
            "w": ["a", "b"],
            "g": [[n], [2]],
        }
        for n in range(3)
    ]
    write(WRITERS[writer](tmp_path / "set"), rows, how)
    wanted = [
        {
            "i": np.int64(n),
            "f": np.float32(n / 2),
            "t": np.bool_(n > 1),
            "s": f"é{n}",
            "b": bytes([n]),
            "l": np.array([n, 2]),
            "w": np.array([b"a", b"b"], object),
            "g": np.array([[n], [2]]),
        }
        for n in range(3)
    ]
    check(wanted, Dataset.from_tfrecords(tmp_path / "set", "auto"))


NUMBERS = st.sampled_from(DTYPES[:14])


@st.composite
def examples(draw):
    """Rows with the same dtypes and numbers of dimensions."""
    kinds = draw(st.lists(st.tuples(NUMBERS, st.integers(0, 3)), min_size=1, max_size=4))
    return [
        {
            f"{number}": draw(
                hnp.arrays(dtype, hnp.array_shapes(min_dims=rank, max_dims=rank, min_side=0, max_side=3))
            )
            if rank
            else draw(hnp.arrays(dtype, ()))[()]
            for number, (dtype, rank) in enumerate(kinds)
        }
        for _ in range(draw(st.integers(1, 4)))
    ]


@settings(deadline=None, max_examples=60)
@given(examples(), st.sampled_from(sorted(WRITERS)), st.booleans(), st.integers(0, 4))
def test_any_arrays_are_read_back(tmp_path_factory, rows, writer, in_batch, split):
    place = tmp_path_factory.mktemp("any") / "set"
    with WRITERS[writer](place) as out:
        for part in (rows[:split], rows[split:]):
            if in_batch and part:
                out.write_batch(columns(part))
            for row in () if in_batch else part:
                out.write(row)
    check(rows, Dataset.from_tfrecords(place, "auto"))


def test_one_by_one_and_in_batches_the_same_bytes_are_written(tmp_path):
    rows = [
        {
            "i": numbers(np.dtype("u1"), (n % 2 + 1, 2, 3), n),
            "d": np.float64(n),
            "f": numbers(np.dtype("f4"), (2, 2), n),
        }
        for n in range(6)
    ]
    for how in ("write", "lists"):
        write(TFRecordWriter(tmp_path / how), rows, how)
    assert (tmp_path / "write").read_bytes() == (tmp_path / "lists").read_bytes()


def test_big_endian_and_fortran_arrays_are_stored_little_endian_and_in_c_order(tmp_path):
    array = np.asfortranarray(np.arange(6).reshape(2, 3)).astype(">i2")
    for how in ("write", "arrays"):
        write(TFRecordWriter(tmp_path / how), [{"x": array}], how)
        (record,) = records.read(tmp_path / how)
        assert fl.example.decode(record, {"x": fl.FixedLenFeature([], "string")})["x"] == array.astype(
            "<i2"
        ).tobytes("C")
        check([{"x": array.astype("<i2")}], Dataset.from_tfrecords(tmp_path / how, "auto"))


def test_an_image_takes_no_more_room_than_its_bytes(tmp_path):
    image = np.random.default_rng(0).integers(0, 256, (32, 32, 3), np.uint8)
    with TFRecordWriter(tmp_path / "a") as writer:
        writer.write({"image": image})
    assert image.nbytes < os.path.getsize(tmp_path / "a") < image.nbytes + 80


def test_labels_stay_readable_as_int64(tmp_path):
    with TFRecordWriter(tmp_path / "a") as writer:
        writer.write({"label": np.uint8(7), "tokens": np.arange(3, dtype=np.int32), "half": np.float16(0.5)})
    features = {
        "label": fl.FixedLenFeature([], "int64"),
        "tokens": fl.VarLenFeature("int64"),
        "half": fl.FixedLenFeature([], "float32"),
    }
    (row,) = Dataset.from_tfrecords(tmp_path / "a", features)
    assert (row["label"], row["tokens"].tolist(), row["half"]) == (7, [0, 1, 2], 0.5)


def test_given_features_say_how_arrays_are_stored(tmp_path):
    image = np.arange(6, dtype=np.uint8).reshape(2, 3)
    features = {"image": fl.FixedLenFeature([2, 3], "int64"), "x": fl.RawFeature([2, 2], "float32")}
    with TFRecordWriter(tmp_path / "a", features=features) as writer:
        writer.write({"image": image, "x": np.ones((2, 2), np.float16)})
        writer.write_batch({"image": image[None], "x": [[[1.0, 1.0], [1.0, 1.0]]]})
        writer.write({"image": image, "x": np.ones(4, np.float32).tobytes()})
        with pytest.raises(
            SchemaError, match=r"'x': it is float32 of shape \(3, 2\) here, and features says Raw"
        ):
            writer.write({"image": image, "x": np.ones((3, 2), np.float32)})
    assert records.infer_features(tmp_path / "a") == features
    assert b"x/shape" not in (tmp_path / "a").read_bytes()  # given features hold all there is
    wanted = {"image": image.astype(np.int64), "x": np.ones((2, 2), np.float32)}
    check([wanted] * 3, Dataset.from_tfrecords(tmp_path / "a", "auto"))


def test_given_shapes_that_change_are_kept_with_their_shape(tmp_path):
    rows = [{"x": np.ones(shape, np.uint8)} for shape in ((2, 3), (1, 4))]
    with TFRecordWriter(tmp_path / "a", features={"x": fl.RawFeature([None, None], "uint8")}) as writer:
        writer.write(rows[0])
        writer.write_batch({"x": [rows[1]["x"]]})
    check(rows, Dataset.from_tfrecords(tmp_path / "a", "auto"))


def test_a_feature_that_has_the_name_of_a_shape_is_refused(tmp_path):
    with TFRecordWriter(tmp_path / "a") as writer:
        for write_it in (
            lambda: writer.write({"x": np.ones((2, 2)), "x/shape": [2, 2]}),
            lambda: writer.write_batch({"x": np.ones((1, 2, 2)), "x/shape": [[2, 2]]}),
        ):
            with pytest.raises(
                SchemaError, match="'x': its shape is stored as 'x/shape', and the example has a"
            ):
                write_it()
        writer.write({"x": np.ones((2, 2)), "shape": [2, 2]})


def test_records_that_are_bytes_are_left_alone(tmp_path):
    with ShardedWriter(tmp_path) as writer:
        writer.write(b"as it is")
    assert list(Dataset.from_tfrecords(tmp_path)) == [b"as it is"]


@pytest.mark.parametrize(
    "late", [np.float64(1.5), np.ones(2), np.ones((2, 2)), np.int64(5), np.ones(2, np.int32)]
)
@pytest.mark.parametrize("writer", WRITERS)
def test_what_was_empty_at_first_is_an_empty_array(tmp_path, writer, late):
    with WRITERS[writer](tmp_path / "set") as out:
        out.write({"n": 1, "x": []})
        out.write({"n": 2})
        out.write({"n": 3, "x": late})
    rows = [row["x"] for row in Dataset.from_tfrecords(tmp_path / "set", "auto")]
    assert [len(row) for row in rows[:2]] == [0, 0]
    assert {row.dtype for row in rows} == {late.dtype}
    np.testing.assert_array_equal(rows[2], np.atleast_1d(late), strict=True)


def test_lists_of_python_numbers_are_stored_as_the_arrays_before_them(tmp_path):
    with TFRecordWriter(tmp_path / "a") as writer:
        writer.write({"x": np.ones((1, 2), np.uint8), "n": np.uint8(1)})
        writer.write({"x": np.array([[1, 2]], object), "n": np.array(2, object)})
        writer.write_batch({"x": [[[3, 4]]], "n": [3]})
        for wrong, told in [
            ({"x": [[1, 2], [3]], "n": 1}, "the lists in it have different lengths"),
            ({"x": np.array([[1, 256]], object), "n": 1}, "holds 256, which does not fit uint8"),
            ({"x": [[1, 2]], "n": 256}, "holds 256, which does not fit uint8"),
            ({"x": [[1, 2**70]], "n": 1}, "holds a number that does not fit uint8"),
        ]:
            with pytest.raises(SchemaError, match=told):
                writer.write(wrong)
            with pytest.raises(SchemaError, match=told):
                writer.write_batch({key: [value] for key, value in wrong.items()})
    wanted = [
        {"x": np.array([pair], np.uint8), "n": np.uint8(n)}
        for n, pair in [(1, [1, 1]), (2, [1, 2]), (3, [3, 4])]
    ]
    check(wanted, Dataset.from_tfrecords(tmp_path / "a", "auto"))


def test_rows_may_be_left_out(tmp_path):
    with TFRecordWriter(tmp_path / "a") as writer:
        writer.write({"n": 1, "x": np.ones(2), "y": np.ones(2, np.int32), "z": [1, 2]})
        writer.write({"n": 2})
    first, second = Dataset.from_tfrecords(tmp_path / "a", "auto")
    assert [len(first[key]) for key in "xyz"] == [2, 2, 2]
    assert [(len(second[key]), second[key].dtype) for key in "xyz"] == [
        (0, float),
        (0, np.int32),
        (0, np.int64),
    ]


def test_processes_agree_on_what_changes(tmp_path):
    with ShardedWriter(tmp_path / "set", shards=1) as writer:

        def shaped(n):
            writer.write({"n": n, "x": np.ones((int(n) % 3 + 1, 2), np.uint8), "row": np.ones(int(n) % 4)})
            return n

        list(Dataset.range(40).map(shaped, num_parallel_calls=2))
    assert records.infer_features(tmp_path / "set") == {
        "n": fl.FixedLenFeature([], "int64"),
        "x": fl.RawFeature([None, 2], "uint8"),
        "row": fl.RawFeature([None], "float64"),
    }
    for row in Dataset.from_tfrecords(tmp_path / "set", "auto"):
        assert row["x"].shape == (int(row["n"]) % 3 + 1, 2)
        assert row["row"].shape == (int(row["n"]) % 4,)


def test_what_a_killed_run_learned_is_kept_when_it_is_resumed(tmp_path):
    script = """
import os, sys, numpy as np, feedline as fl
writer = fl.ShardedWriter(sys.argv[1], resume=True)
producer = writer.producer("a")
for size in (1, 2):
    producer.write({"x": np.ones((size, 2))})
producer.close()
os._exit(1)
"""
    subprocess.run([sys.executable, "-c", script, tmp_path], timeout=60)
    with ShardedWriter(tmp_path, resume=True) as writer:
        assert writer.producer("a").count == 2
        with pytest.raises(SchemaError, match="'x': it is float64 of shape"):
            writer.write({"x": np.ones(2)})
    assert records.infer_features(tmp_path) == {"x": fl.RawFeature([None, 2], "float64")}
    check([{"x": np.ones((size, 2))} for size in (1, 2)], Dataset.from_tfrecords(tmp_path, "auto"))


def test_threads_that_begin_together_agree(tmp_path):
    values = [np.ones(3, np.float64), [0.5, 0.25], np.float64(2), np.zeros(2, np.float32)]
    for turn in range(20):
        with TFRecordWriter(tmp_path / f"{turn}") as writer, ThreadPoolExecutor(4) as threads:

            def add(value, writer=writer):
                try:
                    writer.write({"x": value})
                except SchemaError:
                    return 0
                return 1

            written = sum(threads.map(add, values * 5))
        rows = list(Dataset.from_tfrecords(tmp_path / f"{turn}", "auto"))
        assert len(rows) == written > 0


def test_those_who_append_later_write_what_is_there(tmp_path):
    path = tmp_path / "a.tfrecord"
    with AppendWriter(path) as writer:
        writer.write({"x": np.ones((1, 2), np.uint8)})
    with AppendWriter(path) as writer:
        with pytest.raises(SchemaError, match="'x': it is float64 of shape"):
            writer.write({"x": np.ones((1, 2))})
        copy = pickle.loads(pickle.dumps(writer))
        copy.write({"x": np.ones((3, 2), np.uint8)})
        copy.close()
        writer.write({"x": np.ones((1, 5), np.uint8)})
    assert records.infer_features(path) == {"x": fl.RawFeature([None, None], "uint8")}
    assert [row["x"].shape for row in Dataset.from_tfrecords(path, "auto")] == [(1, 2), (3, 2), (1, 5)]


def test_appended_features_are_told_while_the_file_is_open(tmp_path):
    with AppendWriter(tmp_path / "a") as writer:
        writer.write({"x": np.ones((1, 2), np.uint8)})
        check([{"x": np.ones((1, 2), np.uint8)}], Dataset.from_tfrecords(tmp_path / "a", "auto"))
        records.index(tmp_path / "a")
        writer.write({"x": np.ones((2, 2), np.uint8)})
        records.index(tmp_path / "a")
        assert records.infer_features(tmp_path / "a") == {"x": fl.RawFeature([None, 2], "uint8")}


def test_processes_that_append_together_tell_what_all_wrote(tmp_path):
    path = tmp_path / "a.tfrecord"
    script = """
import sys, numpy as np, feedline as fl
with fl.AppendWriter(sys.argv[1]) as writer:
    for n in range(50):
        writer.write({"x": np.full((int(sys.argv[2]), n % 3 + 1), n, np.uint8), "n": n})
"""
    running = [subprocess.Popen([sys.executable, "-c", script, path, str(number)]) for number in (1, 2, 3)]
    assert [process.wait(timeout=100) for process in running] == [0, 0, 0]
    rows = list(Dataset.from_tfrecords(path, "auto"))
    assert len(rows) == 150
    for row in rows:
        assert row["x"].dtype == np.uint8
        assert row["x"].shape[1] == int(row["n"]) % 3 + 1
        assert (row["x"] == row["n"]).all()


def test_a_file_that_says_all_itself_has_no_sidecar(tmp_path):
    with TFRecordWriter(tmp_path / "a") as writer:
        writer.write({"n": 1, "x": 0.5, "name": "a", "list": [1, 2], "row": np.ones(3, np.float32)})
    assert os.listdir(tmp_path) == ["a"]
    with TFRecordWriter(tmp_path / "a") as writer:
        writer.write({"n": np.int32(1)})
    assert sorted(os.listdir(tmp_path)) == [".a.flindex", "a"]


def test_a_sidecar_that_cannot_be_written_is_told(tmp_path):
    os.mkdir(index_path(str(tmp_path / "a")))
    with (
        pytest.raises(
            fl.WriteError, match="is complete, but the dtypes and shapes of its arrays cannot be stored"
        ),
        TFRecordWriter(tmp_path / "a") as writer,
    ):
        writer.write({"n": np.int32(1)})
    assert records.count(tmp_path / "a") == 1


def test_batches_of_what_was_saved_are_dense_where_shapes_are_the_same(tmp_path):
    ds = Dataset.range(6).map(
        lambda n: {"image": np.full((4, 4), n, np.uint8), "vector": np.full(3, n, np.float32), "n": int(n)}
    )
    ds.save_tfrecords(tmp_path, shards=2)
    (batch,) = Dataset.from_tfrecords(tmp_path, "auto").batch(6)
    (wanted,) = ds.batch(6)
    check([wanted], [batch])


WIDE = pytest.mark.skipif(np.dtype(np.longdouble).itemsize <= 8, reason="longdouble is float64 here")


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("features", [None, {"k": fl.VarLenFeature("float32")}])
@pytest.mark.parametrize(
    ("value", "what"),
    [
        pytest.param(np.longdouble(1.5), "would lose digits.*float64", marks=WIDE),
        pytest.param(np.ones(2, np.longdouble), "would lose digits.*float64", marks=WIDE),
        pytest.param([np.longdouble(1.5)], "would lose digits.*float64", marks=WIDE),
        (np.datetime64("2020-01-01"), r"datetime64\[D\].*cannot be in .*Convert it"),
        (np.array(["2020-01-01"], "M8[s]"), r"datetime64\[s\].*cannot be in .*Convert it"),
        (np.timedelta64(1, "s"), r"timedelta64\[s\].*cannot be in .*Convert it"),
        (np.zeros(2, [("a", "i4")]), "cannot be in .*Convert it"),
    ],
)
def test_what_cannot_be_stored_is_refused_by_name(tmp_path, value, what, features, batch):
    with TFRecordWriter(tmp_path / "a", features=features) as writer:
        with pytest.raises(fl.UsageError, match=f"feature 'k': .*{what}"):
            writer.write_batch({"k": [value]}) if batch else writer.write({"k": value})
        writer.write({"k": [1.5]})
    assert records.count(tmp_path / "a") == 1

"""feedline convert: what TensorFlow reads of it, and what is refused."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import feedline as fl
from feedline.convert import from_csv

tf = pytest.importorskip("tensorflow")

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def source(tmp_path):
    """Writes a file to convert."""

    def write(name, content):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


def written(out, **how):
    """What TensorFlow reads: of each record the features that have values, as lists."""
    files = sorted(map(str, out.glob("*.tfrecord")))
    found = []
    for record in tf.data.TFRecordDataset(files, **how).as_numpy_iterator():
        feature = tf.train.Example.FromString(record).features.feature
        lists = {key: getattr(each, each.WhichOneof("kind") or "", None) for key, each in feature.items()}
        found.append({key: list(each.value) for key, each in lists.items() if each is not None})
    return found


def refused(ran, out, *words):
    """The command says all these words, and leaves nothing behind."""
    assert ran.code == 1
    assert "Traceback" not in ran.err
    for word in words:
        assert word in ran.err
    assert not list(out.glob("*"))
    return ran.err


def test_csv_gives_a_record_for_each_row(feedline, source, out):
    path = source("a.csv", "age,height,city\n3,1.5,Rome\n-4,2,Oslo\n")
    assert feedline("convert", path, out).code == 0
    assert written(out) == [
        {"age": [3], "height": [1.5], "city": [b"Rome"]},
        {"age": [-4], "height": [2.0], "city": [b"Oslo"]},
    ]


def test_the_features_are_shown_and_the_records_counted(feedline, source, out):
    path = source("a.csv", "age,height,city\n3,1.5,Rome\n4,,Oslo\n")
    ran = feedline("convert", path, out)
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in ran.out.splitlines()]
    assert f"{out}: 2 records in 1 file" in ran.out
    assert ["age", "2", "FixedLenFeature((), 'int64')"] in rows
    assert ["height", "1", "VarLenFeature('float32')"] in rows
    assert ["city", "2", "FixedLenFeature((), 'string')"] in rows


def test_as_json_the_same_is_one_object(feedline, source, out):
    path = source("a.csv", "age,height\n3,1.5\n4,\n")
    (facts,) = feedline("convert", "--json", "--shards", 2, path, out).lines()
    assert facts == {
        "directory": str(out),
        "files": [str(out / f"data-0000{number}-of-00002.tfrecord") for number in range(2)],
        "records": 2,
        "features": {
            "age": {"kind": "int64", "shape": [], "records": 2, "read_as": "FixedLenFeature((), 'int64')"},
            "height": {
                "kind": "float32",
                "shape": [None],
                "records": 1,
                "read_as": "VarLenFeature('float32')",
            },
        },
    }


def test_shards_prefix_and_compression_are_as_asked_for(feedline, source, out):
    path = source("a.csv", "n\n" + "\n".join(map(str, range(100))))
    feedline("convert", path, out, "--shards", 4, "--prefix", "train", "--compression", "GZIP")
    names = [f"train-0000{number}-of-00004.tfrecord" for number in range(4)]
    assert sorted(file.name for file in out.glob("*.tfrecord")) == names
    assert [example["n"] for example in written(out, compression_type="GZIP")] == [[n] for n in range(100)]


def test_several_files_are_one_set_in_their_order(feedline, source, out):
    paths = [source("a.csv", "n,m\n1,2\n"), source("b.csv", "m,n\n4,3\n")]
    feedline("convert", *paths, out)
    assert written(out) == [{"n": [1], "m": [2]}, {"n": [3], "m": [4]}]


def test_a_directory_of_files_and_a_glob_mean_those_files(feedline, source, tmp_path):
    source("in/1.csv", "n\n1\n")
    source("in/2.csv", "n\n2\n")
    source("in/README.md", "numbers")
    for given, out in ((tmp_path / "in", tmp_path / "a"), (tmp_path / "in" / "*.csv", tmp_path / "b")):
        assert feedline("convert", given, out).code == 0
        assert written(out) == [{"n": [1]}, {"n": [2]}]


def test_a_set_that_is_there_is_replaced_by_a_good_conversion_only(feedline, source, out):
    feedline("convert", source("a.csv", "n\n1\n"), out)
    assert feedline("convert", source("b.csv", "n\n2\n3,4\n"), out).code == 1
    assert written(out) == [{"n": [1]}]
    feedline("convert", source("c.csv", "n\n5\n"), out)
    assert written(out) == [{"n": [5]}]


# csv


def test_quoted_cells_hold_commas_quotes_and_line_ends(feedline, source, out):
    feedline("convert", source("a.csv", 'a,b\r\n"x, y","1\r\n2"\r\n"5"" pipe",\r\n'), out)
    assert written(out) == [{"a": [b"x, y"], "b": [b"1\r\n2"]}, {"a": [b'5" pipe'], "b": [b""]}]


def test_a_byte_order_mark_and_empty_lines_are_passed_over(feedline, source, out):
    feedline("convert", source("a.csv", "\ufeffn,m\n\n1,2\n\n\n3,4"), out)
    assert written(out) == [{"n": [1], "m": [2]}, {"n": [3], "m": [4]}]


def test_an_empty_cell_among_numbers_is_a_feature_left_out(feedline, source, out):
    feedline("convert", source("a.csv", "n,x\n1,\n,2.5\n"), out)
    assert written(out) == [{"n": [1]}, {"x": [2.5]}]
    with_defaults = {
        "n": tf.io.FixedLenFeature([], tf.int64, default_value=-1),
        "x": tf.io.FixedLenFeature([], tf.float32, default_value=-1.0),
    }
    (path,) = out.glob("*.tfrecord")
    records = list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
    read = tf.io.parse_example(records, with_defaults)
    assert read["n"].numpy().tolist() == [1, -1]
    assert read["x"].numpy().tolist() == [-1.0, 2.5]


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["1", "-2", "+3", " 4"], "int64"),
        (["1", "2.5"], "float32"),
        (["1", "nan", "-inf", "1e5"], "float32"),
        (["1", "x"], "string"),
        (["1.5", "1_000"], "string"),
        (["1", "\u0661"], "string"),
        (["True", "False"], "string"),
        (['""', '""'], "string"),
    ],
)
def test_what_its_cells_look_like_says_what_a_column_is(feedline, source, out, cells, kind):
    path = source("a.csv", "\n".join(["name", *cells]))
    (facts,) = feedline("convert", "--json", path, out).lines()
    assert facts["features"]["name"]["kind"] == kind


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", ["line 1", "no line of names"]),
        ("1,2\n3,4\n", ["line 1", "numbers (1, 2"]),
        ("a,b,a\n1,2,3\n", ["line 1", "two columns are named 'a'"]),
        (",b\n1,2\n", ["line 1", "column 1 has no name"]),
        ("a,b\n1,2\n3\n", ["line 3", "it has 1 cells, and the line of names 2"]),
        ('a,b\n1,"x\ny"\n3,4,5\n', ["line 4", "it has 3 cells"]),
        ('a,b\n1,"x" y\n', ["line 2", "no csv"]),
        ('a,b\n1,2\n3,"open\n', ["line 3", "no csv", "unexpected end of data"]),
        (b"a,b\n1,caf\xe9\n", ["line 2", "byte 6 of it is no UTF-8", "iconv"]),
        ("a\n9223372036854775808\n", ["line 2", "column 'a'", "9223372036854775808 does not fit int64"]),
        ("a\n1.5\n1e39\n", ["line 3", "column 'a'", "1e39 does not fit float32"]),
        ("a,b\n", ["no records"]),
    ],
)
def test_a_csv_that_cannot_be_converted_is_refused_with_the_line(feedline, source, out, content, words):
    path = source("bad.csv", content)
    refused(feedline("convert", path, out), out, f"{path}: ", *words)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("1", "x", "'x' is no int64"),
        ("1", "2.5", "'2.5' is no int64"),
        ("1.5", "x", "'x' is no float32"),
        ("1", "", "it is empty"),
    ],
)
def test_a_cell_unlike_the_first_ones_is_refused_and_more_of_them_can_be_looked_at(
    feedline, source, out, before, after, words
):
    path = source("a.csv", "n,m\n" + f"{before},0\n" * 20 + f"{after},0\n")
    error = refused(feedline("convert", "--infer-from", 20, path, out), out, "line 22: column 'n'", words)
    assert "--infer-from" in error
    assert feedline("convert", "--infer-from", 21, path, out).code == 0
    assert len(written(out)) == 21


def test_files_with_other_columns_are_refused(feedline, source, out):
    paths = [source("a.csv", "n,m\n1,2\n"), source("b.csv", "n,x\n1,2\n")]
    refused(feedline("convert", *paths, out), out, "b.csv: line 1", "a.csv: 'm', 'x' are in one of them only")


@hypothesis.settings(max_examples=50)
@hypothesis.given(
    st.lists(st.tuples(st.text(), st.integers(-(2**63), 2**63 - 1), st.floats(width=32)), min_size=1)
)
def test_whatever_a_csv_writer_writes_is_read_back(rows):
    with TemporaryDirectory() as directory:
        path = Path(directory) / "a.csv"
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["text", "n", "x"])
            writer.writerows([f"'{text}", n, repr(x)] for text, n, x in rows)
        (batch,) = from_csv.read([str(path)], 1000)
    columns = batch.columns
    assert columns["text"].strings() == [f"'{text}".encode() for text, _, _ in rows]
    assert columns["n"].tolist() == [n for _, n, _ in rows]
    np.testing.assert_array_equal(columns["x"], np.array([x for _, _, x in rows], np.float32))


def test_a_long_cell_is_kept_whole(feedline, source, out):
    feedline("convert", source("a.csv", f"text,n\n{'x' * 1_000_000},1\n"), out)
    assert written(out) == [{"text": [b"x" * 1_000_000], "n": [1]}]


# jsonl


def test_jsonl_gives_a_record_for_each_line(feedline, source, out):
    rows = [
        {"n": 1, "x": 2, "is": True, "name": "Zoë", "tags": ["a", "b"], "v": [1, 2.5]},
        {"n": 2, "x": 0.5, "is": False, "name": "", "tags": [], "v": [0.5]},
    ]
    feedline("convert", source("a.jsonl", "\n\n".join(map(json.dumps, rows))), out)
    assert written(out) == [
        {"n": [1], "x": [2.0], "is": [1], "name": ["Zoë".encode()], "tags": [b"a", b"b"], "v": [1.0, 2.5]},
        {"n": [2], "x": [0.5], "is": [0], "name": [b""], "v": [0.5]},
    ]


def test_a_key_that_is_null_or_not_there_is_left_out(feedline, source, out):
    path = source("a.jsonl", '{"n": 1}\n{"m": "x"}\n{"n": null, "m": "y", "never": null}\n')
    (facts,) = feedline("convert", "--json", path, out).lines()
    assert written(out) == [{"n": [1]}, {"m": [b"x"]}, {"m": [b"y"]}]
    assert {key: seen["records"] for key, seen in facts["features"].items()} == {"n": 1, "m": 2}


def test_a_value_alone_goes_with_lists_of_them(feedline, source, out):
    feedline("convert", source("a.jsonl", '{"t": "a"}\n{"t": ["b", "c"]}\n'), out)
    assert written(out) == [{"t": [b"a"]}, {"t": [b"b", b"c"]}]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{'n': 1}", ["no JSON"]),
        ('{"n": 1', ["no JSON"]),
        ('{"n": NaN}', ["no JSON"]),
        ("[1, 2]", ["it holds a list, no object"]),
        ('{"n": {"a": 1}}', ["column 'n'", "an object, which an Example cannot"]),
        ('{"n": [[1], [2]]}', ["column 'n'", "a list within a list"]),
        ('{"n": [1, null]}', ["column 'n'", "nothing, which an Example cannot"]),
        ('{"n": "x"}', ["column 'n'", "a string, and lines before this one int64"]),
        ('{"n": 9223372036854775808}', ["column 'n'", "9223372036854775808 does not fit int64"]),
        ('{"n": 1e39}', ["column 'n'", "1e+39 does not fit float32"]),
        (b'{"n": "\xff"}', ["no UTF-8"]),
    ],
)
def test_a_line_that_cannot_be_converted_is_refused_with_its_number(feedline, source, out, line, words):
    line = line if isinstance(line, bytes) else line.encode()
    path = source("bad.jsonl", b'{"n": 1}\n\n' + line + b"\n")
    refused(feedline("convert", path, out), out, f"{path}: line 3: ", *words)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"n": 1.5}', "'n': it holds a number with a fraction, and the first 20 rows int64"),
        ('{"n": "x"}', "'n': it holds a string"),
        ('{"n": [1]}', "'n': it holds a list"),
        ('{"n": {"a": 1}}', "'n': it holds an object"),
        ("{}", "'n': it holds nothing"),
        ('{"n": 1, "t": [1, 2.5]}', "'t': it holds a number with a fraction, and the first 20 rows int64"),
        ('{"n": 1, "t": [1, "x"]}', "'t': it holds a string"),
        ('{"n": 1, "t": 2.5}', "'t': it holds a number with a fraction"),
        ('{"n": 1, "t": [1, 9223372036854775808]}', "'t': 9223372036854775808 does not fit int64"),
        ('{"n": 1, "m": 1}', "'m': it holds an integer, and lines before this one nothing"),
    ],
)
def test_a_line_unlike_the_first_ones_is_refused(feedline, source, out, line, words):
    path = source("a.jsonl", '{"n": 1, "t": [1, 2]}\n' * 20 + line)
    refused(feedline("convert", "--infer-from", 20, path, out), out, f"{path}: line 21: ", words)


def test_a_list_may_be_missing_after_the_first_rows(feedline, source, out):
    path = source("a.jsonl", '{"n": 1, "t": [1, 2]}\n' * 20 + '{"n": 2}')
    feedline("convert", "--infer-from", 20, path, out)
    assert written(out)[19:] == [{"n": [1], "t": [1, 2]}, {"n": [2]}]


def test_an_array_of_objects_is_refused_with_how_to_make_lines_of_it(feedline, source, out):
    path = source("a.json", '[\n  {"n": 1}\n]')
    refused(feedline("convert", "--format", "jsonl", path, out), out, "line 1", "jq -c '.[]'")


# npz


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_gives_a_record_for_each_row_of_the_arrays(feedline, tmp_path, out, save):
    x = np.arange(3000 * 4, dtype=np.float64).reshape(3000, 2, 2)
    names = np.array([f"é{number}" for number in range(3000)])
    save(
        tmp_path / "a.npz",
        x=x,
        y=np.arange(3000, dtype=np.uint8),
        name=names,
        turned=np.asfortranarray(x[:, 0]),
    )
    (facts,) = feedline("convert", "--json", tmp_path / "a.npz", out).lines()
    found = written(out)
    assert [example["x"] for example in found] == [[row.tobytes()] for row in x]
    assert [example["y"] for example in found] == [[number % 256] for number in range(3000)]
    assert [example["name"] for example in found] == [[name.encode()] for name in names.tolist()]
    assert [example["turned"] for example in found] == [[row.tobytes()] for row in x[:, 0]]
    assert {key: fact["read_as"] for key, fact in facts["features"].items()} == {
        "x": "RawFeature((2, 2), 'float64')",
        "y": "ListFeature((), 'uint8')",
        "name": "FixedLenFeature((), 'string')",
        "turned": "RawFeature((2,), 'float64')",
    }
    assert facts["features"]["x"]["kind"] == "float64"
    assert facts["features"]["x"]["shape"] == [2, 2]
    for row, read in enumerate(fl.Dataset.from_tfrecords(out, "auto")):
        np.testing.assert_array_equal(read["x"], x[row], strict=True)
        assert (read["y"].dtype, int(read["y"])) == (np.uint8, row % 256)


def test_complex_numbers_and_large_ones_of_an_npz_are_kept(feedline, tmp_path, out):
    wanted = {"c": np.array([1 + 2j], np.complex64), "u": np.array([2**64 - 1], np.uint64)}
    np.savez(tmp_path / "a.npz", **wanted)
    assert feedline("convert", tmp_path / "a.npz", out).code == 0
    (row,) = fl.Dataset.from_tfrecords(out, "auto")
    for key, column in wanted.items():
        np.testing.assert_array_equal(row[key], column[0], strict=True)


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"x": np.array([[1], [1, 2]], object)}, ["array 'x'", "Python objects"]),
        ({"x": np.zeros(3, "M8[s]")}, ["array 'x'", "datetime64"]),
        ({"x": np.zeros(3, [("a", int)])}, ["array 'x'", "[('a', '<i8')]"]),
        ({"x": np.zeros(3), "y": np.zeros(4)}, ["array 'y' has 4 rows, and 'x' 3"]),
        ({"x": np.float64(1)}, ["array 'x'", "a single value"]),
        ({}, ["no arrays"]),
        ({"x": np.zeros((0, 2))}, ["no records"]),
    ],
)
def test_arrays_that_cannot_be_converted_are_refused(feedline, tmp_path, out, arrays, words):
    path = tmp_path / "bad.npz"
    np.savez(path, **arrays)
    refused(feedline("convert", path, out), out, f"{path}: ", *words)


def test_a_pickle_in_an_npz_is_never_loaded(feedline, tmp_path, out):
    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "went off"),)

    np.savez(tmp_path / "a.npz", x=np.array([Bomb()], object))
    refused(feedline("convert", tmp_path / "a.npz", out), out, "Python objects")
    assert not (tmp_path / "went off").exists()


def test_a_damaged_npz_is_refused(feedline, tmp_path, out):
    path = tmp_path / "a.npz"
    np.savez(path, x=np.zeros(100_000))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    refused(feedline("convert", path, out), out, f"{path}: ", "no sound npz file: Bad CRC-32")
    path.write_bytes(content[:1000])
    refused(feedline("convert", path, out), out, f"{path}: ", "no sound npz file")
    for member in (b"no array", b"\x93NUMPY\x01\x00\x0a\x00{'descr': '"):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("x.npy", member)
        refused(feedline("convert", path, out), out, f"{path}: ", "no sound npz file")


def test_an_array_that_is_shorter_than_it_says_is_refused(feedline, tmp_path, out):
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (%s,), }\n"
    for shape, words in (
        (b"1000000000000", "before its last row"),
        (b"-5", "the shape (-5,)"),
        (b"1", "goes on"),
    ):
        text = header % shape
        with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
            archive.writestr(
                "x.npy", b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(80)
            )
        refused(feedline("convert", tmp_path / "a.npz", out), out, "no sound npz file", words)


def test_npz_files_with_other_arrays_are_refused(feedline, tmp_path, out):
    np.savez(tmp_path / "a.npz", x=np.zeros(3))
    np.savez(tmp_path / "b.npz", y=np.zeros(3))
    refused(feedline("convert", tmp_path / "a.npz", tmp_path / "b.npz", out), out, "b.npz: feature 'y'")


# parquet


@pytest.fixture
def parquet(tmp_path):
    """Writes a parquet file of a dict of columns."""
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    def write(columns, name="a.parquet", **how):
        parquet.write_table(pa.table(columns), tmp_path / name, **how)
        return tmp_path / name

    return write


def test_parquet_gives_a_record_for_each_row(feedline, parquet, out):
    pa = pytest.importorskip("pyarrow")
    columns = {
        "n": [1, 2],
        "x": pa.array([0.5, 1.5], pa.float64()),
        "is": [True, False],
        "name": ["Zoë", ""],
        "raw": [b"\xff", b""],
        "class": pa.array(["cat", "cat"]).dictionary_encode(),
        "tags": [["a", "b"], ["c"]],
        "pair": pa.array([[1, 2], [3, 4]], pa.list_(pa.int16(), 2)),
    }
    (facts,) = feedline("convert", "--json", parquet(columns), out).lines()
    assert written(out) == [
        {
            "n": [1],
            "x": [0.5],
            "is": [1],
            "name": ["Zoë".encode()],
            "raw": [b"\xff"],
            "class": [b"cat"],
            "tags": [b"a", b"b"],
            "pair": [1, 2],
        },
        {
            "n": [2],
            "x": [1.5],
            "is": [0],
            "name": [b""],
            "raw": [b""],
            "class": [b"cat"],
            "tags": [b"c"],
            "pair": [3, 4],
        },
    ]
    assert facts["features"]["n"]["read_as"] == "FixedLenFeature((), 'int64')"
    assert facts["features"]["pair"]["read_as"] == "FixedLenFeature((2,), 'int64')"


@pytest.mark.parametrize("statistics", [True, False])
def test_a_null_is_a_feature_left_out_wherever_it_comes(feedline, parquet, out, statistics):
    numbers = [*range(5000), None]
    columns = {"n": numbers, "tags": [["a"]] * 5000 + [None], "all": [None] * 5001}
    feedline("convert", parquet(columns, row_group_size=1000, write_statistics=statistics), out)
    found = written(out)
    assert found[:5000] == [{"n": [number], "tags": [b"a"]} for number in range(5000)]
    assert found[5000:] == [{}]


def test_nulls_in_a_later_file_do_not_differ_from_the_first(feedline, parquet, out):
    paths = [parquet({"n": [1]}, "a.parquet"), parquet({"n": [None, 2]}, "b.parquet")]
    feedline("convert", *paths, out)
    assert written(out) == [{"n": [1]}, {}, {"n": [2]}]


def test_columns_that_an_example_cannot_hold_are_refused(feedline, parquet, out):
    pa = pytest.importorskip("pyarrow")
    for column, words in (
        ([{"a": 1}], "struct<a: int64>"),
        (pa.array([0], pa.timestamp("us")), "timestamp[us]"),
        ([[[1]]], "list<"),
        ([[1, None]], "holds a null"),
    ):
        refused(feedline("convert", parquet({"x": column}), out), out, "a.parquet: column 'x'", words)


def test_a_damaged_parquet_file_is_refused(feedline, parquet, out):
    path = parquet({"n": list(range(1000))})
    content = path.read_bytes()
    path.write_bytes(content[:-10])
    refused(feedline("convert", path, out), out, f"{path}: it is no sound parquet file")
    path.write_bytes(content[:4] + bytes(100) + content[104:])
    refused(feedline("convert", path, out), out, f"{path}: it is no sound parquet file")


def test_without_pyarrow_the_message_says_how_to_install_it(source, out):
    path = source("a.parquet", b"PAR1")
    block = "import sys; sys.modules['pyarrow'] = None; from feedline.cli import main; main()"
    ran = subprocess.run(
        [sys.executable, "-c", block, "convert", path, out], capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 1
    assert "pip install 'feedline[parquet]'" in ran.stderr
    assert "Traceback" not in ran.stderr


# Folders of images


def test_images_get_the_label_of_their_folder(feedline, source, tmp_path, out):
    expected = set()
    for label, name in enumerate(["cats", "dogs", "Zebras"]):
        for number in range(20):
            image = tf.io.encode_png(np.full((2, 2, 3), 10 * label + number, np.uint8)).numpy()
            source(f"pets/{name}/{number}.PNG", image)
            expected.add((image, ["Zebras", "cats", "dogs"].index(name), name.encode()))
    source("pets/cats/notes.txt", "about cats")
    source("pets/cats/.hidden.png", b"")
    ran = feedline("convert", tmp_path / "pets", out)
    found = written(out)
    assert {(each["image"][0], each["label"][0], each["class"][0]) for each in found} == expected
    assert len(found) == 60
    assert "1 file passed over" in ran.err
    assert tf.io.decode_image(found[0]["image"][0]).shape == (2, 2, 3)


def test_images_are_mixed_the_same_way_each_time(feedline, source, tmp_path):
    for name in ("a", "b"):
        for number in range(50):
            source(f"in/{name}/{number}.png", PNG + bytes([number]))
    for out in ("1", "2"):
        feedline("convert", tmp_path / "in", tmp_path / out, "--shards", 4)
    files = sorted((tmp_path / "1").glob("*.tfrecord"))
    assert [file.read_bytes() for file in files] == [
        (tmp_path / "2" / file.name).read_bytes() for file in files
    ]
    labels = [example["label"][0] for example in written(tmp_path / "1")]
    assert all(len(set(labels[begin : begin + 25])) == 2 for begin in range(0, 100, 25))


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"a/1.png": b""}, ["1.png: it is empty"]),
        ({"a/1.jpg": b"<html>"}, ["1.jpg: it does not begin as a JPEG"]),
        ({"1.png": PNG}, ["no folders of images"]),
        ({"a/1.png": PNG, "2.png": PNG}, ["images lie beside the folders"]),
        ({"train/a/1.png": PNG}, ["a folder within the folder of a class", "convert that"]),
        ({"a/1.png": PNG, "b/notes.txt": b"none"}, ["b: it holds no .bmp"]),
    ],
)
def test_a_folder_that_cannot_be_converted_is_refused(feedline, source, tmp_path, out, files, words):
    for name, content in files.items():
        source(f"in/{name}", content)
    refused(feedline("convert", tmp_path / "in", out), out, *words)


# What is meant


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["a.csv", "b.jsonl"], "different formats, csv and jsonl"),
        (["c.txt"], "--format csv|images|jsonl|npz|parquet"),
        (["a.csv", "--format", "xml"], "--format xml"),
        (["a.csv", "--format", "images"], "no directory"),
        (["missing.csv"], "missing.csv"),
        (["both"], "--format images, or --format csv"),
        (["a.csv", "--compression", "LZ4"], "LZ4"),
    ],
)
def test_what_cannot_be_meant_exits_2(feedline, source, tmp_path, out, given, words, monkeypatch):
    for name in ("a.csv", "b.jsonl", "c.txt", "both/a.csv", "both/cats/1.png"):
        source(name, "n\n1\n")
    monkeypatch.chdir(tmp_path)
    ran = feedline("convert", *given, out)
    assert words in ran.err
    assert ran.code == 2
    assert not list(out.glob("*"))


def test_a_pipe_is_refused(feedline, tmp_path, out):
    os.mkfifo(tmp_path / "pipe.csv")
    ran = feedline("convert", tmp_path / "pipe.csv", out)
    assert "no regular file" in ran.err
    assert ran.code == 2


def test_a_conversion_that_is_interrupted_leaves_nothing(source, out):
    path = source("a.csv", "n,x\n" + "1,2.5\n" * 3_000_000)
    command = [sys.executable, "-m", "feedline.cli", "convert", str(path), str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        until = time.monotonic() + 60
        while not list(out.glob(".data.writing-*/*/*.part")) and time.monotonic() < until:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        printed = process.communicate(timeout=200)
    assert printed == (b"", b"")
    assert process.returncode == 130
    assert out.exists()
    assert not list(out.glob("*"))


def test_memory_does_not_grow_with_the_arrays(tmp_path):
    peaks = []
    for rows in (100_000, 1_000_000):
        np.savez(tmp_path / "a.npz", x=np.zeros((rows, 25)))
        script = (
            "import resource, sys; from feedline.convert.formats import FORMATS\n"
            "for batch in FORMATS['npz'].read([sys.argv[1]], 1): pass\n"
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
        )
        ran = subprocess.run(
            [sys.executable, "-c", script, tmp_path / "a.npz"],
            capture_output=True,
            text=True,
            timeout=200,
            check=True,
        )
        peaks.append(int(ran.stdout) * 1024)
    assert peaks[1] < peaks[0] + 20_000_000  # the file is 200 MB

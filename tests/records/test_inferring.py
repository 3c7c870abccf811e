"""infer_features and features="auto": what a writer told, or a survey finds."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import msgspec
import numpy as np
import pytest

import feedline as fl
from feedline import (
    CorruptRecord,
    Dataset,
    SchemaError,
    ShardedWriter,
    TFRecordWriter,
    UsageError,
    example,
    records,
)
from feedline.records.feature_texts import FeatureText, features_of, from_json
from feedline.records.indexing import write_index
from feedline.records.shard_files import manifest_path

IMAGE = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)


def write(path, *rows, **how):
    with TFRecordWriter(path, **how) as writer:
        for row in rows:
            writer.write(row)
    return str(path)


def write_set(directory, *rows, **how):
    with ShardedWriter(directory, **how) as writer:
        for row in rows:
            writer.write(row)
    return str(directory)


def retell(directory, features):
    """Let the manifest of the set say something else; gives its path."""
    path = Path(manifest_path(str(directory), "data"))
    path.write_text(json.dumps(json.loads(path.read_text()) | {"features": features}))
    return str(path)


def read(files, **how):
    return list(Dataset.from_tfrecords(files, features="auto", **how))


def test_files_of_others_are_surveyed(tmp_path):
    path = tmp_path / "a"
    with TFRecordWriter(path) as writer:
        for n in range(3):
            writer.write(example.encode({"n": n, "list": list(range(n))}))
    assert records.infer_features(path) == {
        "n": fl.FixedLenFeature([], "int64"),
        "list": fl.VarLenFeature("int64"),
    }
    assert [row["list"].tolist() for row in read(path)] == [[], [0], [0, 1]]


def test_compressed_files_of_others_are_surveyed(tmp_path):
    path = write(tmp_path / "a", example.encode({"n": 5}), compression="ZLIB")
    assert read(path) == read(path, compression="ZLIB") == [{"n": 5}]


def test_files_that_differ_only_in_sizes_are_read_together(tmp_path):
    sizes = [(2, 4), (3, 4), (2, 5)]
    paths = [
        write(tmp_path / f"{n}", {"x": np.full(size, n, np.uint8), "row": np.full(n, n), "n": np.int32(n)})
        for n, size in enumerate(sizes)
    ]
    assert records.infer_features(paths) == {
        "x": fl.RawFeature([None, None], "uint8"),
        "row": fl.VarLenFeature("int64"),
        "n": fl.ListFeature([], "int32"),
    }
    assert [row["x"].shape for row in read(paths)] == sizes
    assert [row["x"].shape for row in read(str(tmp_path / "*"))] == sizes
    assert [row["x"].shape for row in read(paths, num_parallel_reads=3)] == sizes


@pytest.mark.parametrize(
    ("other", "feature"),
    [
        ({"x": np.ones((2, 2)), "n": 1}, "'x'"),
        ({"x": np.ones(2, np.uint8), "n": 1}, "'x'"),
        ({"x": IMAGE, "n": np.int32(1)}, "'n'"),
        ({"x": IMAGE}, "'n'"),
        (example.encode({"x": 1, "n": 1}), "'x'"),
    ],
)
def test_files_that_disagree_are_an_error_that_names_them(tmp_path, other, feature):
    paths = [write(tmp_path / "a", {"x": IMAGE, "n": 1}), write(tmp_path / "b", other)]
    with pytest.raises(SchemaError) as caught:
        read(paths)
    for word in (*paths, f"feature {feature}", "differ", "Read the files apart"):
        assert word in str(caught.value)
    with pytest.raises(SchemaError, match="differ"):
        read(paths[::-1])


def test_files_without_records_say_nothing(tmp_path):
    path = write(tmp_path / "a", {"x": IMAGE})
    (row,) = read([path, write(tmp_path / "b")])
    np.testing.assert_array_equal(row["x"], IMAGE, strict=True)


def test_sequence_examples_beside_examples_are_an_error(tmp_path):
    tf = pytest.importorskip("tensorflow")
    steps = tf.train.FeatureList(feature=[tf.train.Feature(int64_list=tf.train.Int64List(value=[1]))])
    record = tf.train.SequenceExample(feature_lists=tf.train.FeatureLists(feature_list={"s": steps}))
    paths = [write(tmp_path / "a", {"x": IMAGE}), write(tmp_path / "b", record.SerializeToString())]
    assert isinstance(records.infer_features(paths[1]), fl.SequenceFeatures)
    with pytest.raises(SchemaError, match="SequenceExamples"):
        records.infer_features(paths)


def test_features_that_never_had_values_are_left_out(tmp_path):
    write_set(tmp_path / "a", {"n": 1, "x": []})
    assert read(tmp_path / "a") == [{"n": 1}]
    write_set(tmp_path / "b", {"x": []})
    with pytest.raises(SchemaError, match="none to infer"):
        read(tmp_path / "b")


def test_a_feature_that_only_one_file_has_values_of_may_be_empty(tmp_path):
    paths = [write_set(tmp_path / "a", {"x": []}), write_set(tmp_path / "b", {"x": IMAGE})]
    assert [row["x"].shape for row in read(paths)] == [(0, 4, 3), (2, 4, 3)]


def test_only_auto_is_a_text_that_features_takes(tmp_path):
    path = write(tmp_path / "a", {"x": IMAGE})
    with pytest.raises(UsageError, match=r"features='raw'.*\"auto\""):
        Dataset.from_tfrecords(path, "raw")
    with pytest.raises(UsageError, match="Dataset of paths"):
        Dataset.from_tfrecords(Dataset.list_files(path), "auto")


def test_the_fingerprint_depends_on_what_was_found(tmp_path):
    path = write(tmp_path / "a", {"x": IMAGE})
    explicit = Dataset.from_tfrecords(path, {"x": fl.RawFeature([2, 4, 3], "uint8")})
    auto = Dataset.from_tfrecords(path, "auto")
    assert auto.fingerprint() == explicit.fingerprint()
    write_index(path, None, json.dumps({"x": {"kind": "RawFeature", "dtype": "int8", "shape": [2, 4, 3]}}))
    assert Dataset.from_tfrecords(path, "auto").fingerprint() != auto.fingerprint()


def test_a_copy_keeps_its_features(tmp_path):
    write(tmp_path / "a", {"x": IMAGE})
    shutil.copytree(tmp_path, tmp_path / "copy")
    np.testing.assert_array_equal(read(tmp_path / "copy" / "a")[0]["x"], IMAGE, strict=True)


def test_features_of_a_file_that_was_replaced_are_not_believed(tmp_path):
    path = write(tmp_path / "a", {"x": IMAGE})
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(SchemaError, match="none of the 0 records"):
        read(path)
    write(path, {"x": [1, 2]})
    assert records.infer_features(path) == {"x": fl.FixedLenFeature([2], "int64")}


def test_a_shard_that_is_not_the_set_s_is_not_believed(tmp_path):
    write_set(tmp_path, {"x": IMAGE})
    path = tmp_path / "data-00000-of-00001.tfrecord"
    with TFRecordWriter(path) as writer:
        writer.write({"x": 1})
    assert records.infer_features(path) == {"x": fl.FixedLenFeature([], "int64")}


def test_one_shard_alone_is_told_of(tmp_path):
    write_set(tmp_path, {"x": IMAGE}, {"x": IMAGE}, shards=2)
    assert records.infer_features(tmp_path / "data-00001-of-00002.tfrecord") == {
        "x": fl.RawFeature([2, 4, 3], "uint8")
    }


# Files that are made of others


@pytest.mark.parametrize("compression", [None, "GZIP"])
def test_merged_files_keep_the_features_they_agree_on(tmp_path, compression):
    paths = [
        write(tmp_path / f"{n}", {"x": np.full((n, 2), n, np.uint8)}, compression=compression) for n in (1, 2)
    ]
    records.merge(paths, tmp_path / "both")
    assert records.infer_features(tmp_path / "both") == {"x": fl.RawFeature([None, 2], "uint8")}
    assert [row["x"].shape for row in read(tmp_path / "both")] == [(1, 2), (2, 2)]


def test_merged_files_that_disagree_say_nothing(tmp_path):
    paths = [write(tmp_path / "a", {"x": IMAGE}), write(tmp_path / "b", {"x": IMAGE.astype(float)})]
    records.merge(paths, tmp_path / "both")
    assert [type(row["x"]) for row in read(tmp_path / "both")] == [bytes, bytes]


def test_a_resharded_set_keeps_its_features(tmp_path):
    write_set(tmp_path / "a", *({"x": np.full((n, 2), n, np.uint8)} for n in range(5)))
    records.reshard(tmp_path / "a", tmp_path / "b", 3)
    records.reshard(tmp_path / "b", tmp_path / "b", 2)
    assert records.infer_features(tmp_path / "b") == {"x": fl.RawFeature([None, 2], "uint8")}
    assert [len(row["x"]) for row in read(tmp_path / "b")] == [0, 1, 2, 3, 4]


def test_files_are_resharded_with_their_features(tmp_path):
    paths = [write(tmp_path / f"{n}", {"x": np.full((n, 2), n, np.uint8)}) for n in (1, 2)]
    records.reshard(paths, tmp_path / "set", 1)
    assert [row["x"].shape for row in read(tmp_path / "set")] == [(1, 2), (2, 2)]


def test_a_repaired_file_keeps_its_features(tmp_path):
    path = write(tmp_path / "a", *[{"x": IMAGE}] * 200)
    data = bytearray((tmp_path / "a").read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "a").write_bytes(data)
    kept = records.repair(path, tmp_path / "b").kept
    assert len(read(tmp_path / "b")) == kept == 199
    np.testing.assert_array_equal(read(tmp_path / "b")[0]["x"], IMAGE, strict=True)


# What older versions and strangers wrote


def test_a_manifest_of_an_older_version_is_read(tmp_path):
    write_set(tmp_path, example.encode({"image": IMAGE, "words": ["a"], "n": 5}))
    retell(
        tmp_path,
        {
            "image": {"kind": "FixedLenFeature", "dtype": "int64", "shape": [2, 4, 3]},
            "words": {"kind": "VarLenFeature", "dtype": "string"},
            "n": {"kind": "FixedLenFeature", "dtype": "int64", "shape": []},
            "never": None,
        },
    )
    (row,) = read(tmp_path)
    np.testing.assert_array_equal(row["image"], IMAGE.astype(np.int64), strict=True)
    assert (row["words"].tolist(), row["n"]) == ([b"a"], 5)


HOSTILE = [
    {"kind": "RawFeature", "dtype": "uint8", "shape": [2**31]},
    {"kind": "RawFeature", "dtype": "uint8", "shape": [2**62, 2**62]},
    {"kind": "RawFeature", "dtype": "float64", "shape": [2**28]},
    {"kind": "RawFeature", "dtype": "uint8", "shape": [0, 2**62]},
    {"kind": "RawFeature", "dtype": "uint8", "shape": [None, 2**40]},
    {"kind": "RawFeature", "dtype": "uint8", "shape": [1] * 33},
    {"kind": "FixedLenFeature", "dtype": "int64", "shape": [2**62]},
    {"kind": "FixedLenFeature", "dtype": "int64", "shape": [None]},
    {"kind": "FixedLenFeature", "dtype": "uint8", "shape": []},
    {"kind": "ListFeature", "dtype": "float64", "shape": []},
    {"kind": "ListFeature", "dtype": "int32", "shape": [2, 2]},
    {"kind": "ListFeature", "dtype": "int32", "shape": [2**40]},
    {"kind": "RawFeature", "dtype": "object", "shape": []},
    {"kind": "RawFeature", "dtype": "O", "shape": []},
    {"kind": "RawFeature", "dtype": "string", "shape": []},
    {"kind": "RawFeature", "dtype": "V8", "shape": []},
    {"kind": "RawFeature", "dtype": ">f8", "shape": []},
    {"kind": "RawFeature", "dtype": "i4,i4", "shape": []},
    {"kind": "RawFeature", "dtype": "datetime64[s]", "shape": []},
    {"kind": "RawFeature", "dtype": "__import__('os')", "shape": []},
]
MALFORMED = [
    {"kind": "RawFeature", "dtype": "uint8", "shape": [-1]},
    {"kind": "RawFeature", "dtype": "uint8", "shape": [2**63]},
    {"kind": "RawFeature", "dtype": "uint8", "shape": [1.5]},
    {"kind": "RawFeature", "dtype": "uint8", "shape": "ab"},
    {"kind": "RawFeature", "dtype": ["uint8"], "shape": []},
    {"kind": "PickleFeature", "dtype": "uint8", "shape": []},
    {"kind": "RawFeature", "dtype": "uint8", "shape": [], "more": 1},
    {"dtype": "uint8"},
    5,
]


@pytest.mark.parametrize("text", HOSTILE + MALFORMED)
def test_a_sidecar_that_lies_is_an_error_that_says_what_to_do(tmp_path, text):
    path = write(tmp_path / "a", {"x": IMAGE})
    write_index(path, None, json.dumps({"x": text}))
    with pytest.raises(CorruptRecord) as caught:
        read(path)
    for word in (".a.flindex", "its feature description is invalid", "pass `features` yourself"):
        assert word in str(caught.value)
    assert len(list(Dataset.from_tfrecords(path))) == 1


@pytest.mark.parametrize("text", HOSTILE)
def test_a_manifest_that_lies_is_an_error_that_says_what_to_do(tmp_path, text):
    write_set(tmp_path, {"x": IMAGE})
    path = retell(tmp_path, {"x": text})
    with pytest.raises(CorruptRecord) as caught:
        read(tmp_path)
    for word in (path, "feature 'x'", "pass `features` yourself"):
        assert word in str(caught.value)
    assert len(list(Dataset.from_tfrecords(tmp_path))) == 1
    records.merge(tmp_path, tmp_path / "merged")


LARGE = [
    {"kind": "RawFeature", "dtype": "uint8", "shape": [2**31 - 1]},
    {"kind": "FixedLenFeature", "dtype": "int64", "shape": [2**20]},
    {"kind": "FixedLenFeature", "dtype": "string", "shape": [2**20]},
    {"kind": "ListFeature", "dtype": "float16", "shape": [2**20]},
]


@pytest.mark.parametrize("text", LARGE)
@pytest.mark.parametrize("compression", [None, "GZIP"])
def test_a_feature_larger_than_any_record_of_the_file_is_refused(tmp_path, text, compression):
    with TFRecordWriter(tmp_path / "a", compression=compression) as writer:
        writer.write({"x": IMAGE})
    write_index(str(tmp_path / "a"), None, json.dumps({"x": text}))
    with pytest.raises(
        CorruptRecord, match=r"\.a\.flindex: .*feature 'x': .* larger than any record of"
    ) as caught:
        read(tmp_path / "a")
    assert ".." not in str(caught.value)


@pytest.mark.parametrize("text", LARGE)
def test_a_feature_larger_than_any_record_of_the_set_is_refused(tmp_path, text):
    write_set(tmp_path, {"x": IMAGE})
    path = retell(tmp_path, {"x": text})
    with pytest.raises(CorruptRecord, match="larger than any record of") as caught:
        read(tmp_path)
    assert path in str(caught.value)


@pytest.mark.parametrize("compression", [None, "GZIP", "ZLIB"])
@pytest.mark.parametrize("rows", [0, 1])
def test_records_that_compress_well_and_empty_files_keep_their_features(tmp_path, compression, rows):
    features = {"x": fl.RawFeature([1000, 1000], "uint8")}
    with TFRecordWriter(tmp_path / "a", features=features, compression=compression) as writer:
        for _ in range(rows):
            writer.write({"x": np.zeros((1000, 1000), np.uint8)})
    assert records.infer_features(tmp_path / "a") == features


@pytest.mark.parametrize("text", ["", "[", "[]", "5", '{"x": []}', "\x00", "[" * 100_000])
def test_a_sidecar_that_is_no_features_is_an_error(tmp_path, text):
    path = write(tmp_path / "a", {"x": IMAGE})
    write_index(path, None, text)
    if text:
        with pytest.raises(CorruptRecord, match="description is invalid"):
            read(path)
    else:
        assert read(path)


@pytest.mark.parametrize(
    ("told", "row", "what"),
    [
        ({"kind": "RawFeature", "dtype": "uint8", "shape": [25]}, {"x": IMAGE}, "holds 24 bytes"),
        (
            {"kind": "RawFeature", "dtype": "float64", "shape": [None]},
            {"x": b"123"},
            "holds 3 bytes, and 8 are",
        ),
        (
            {"kind": "RawFeature", "dtype": "uint8", "shape": [None, 5]},
            {"x": IMAGE},
            "holds 24 bytes, and 5 are",
        ),
        (
            {"kind": "RawFeature", "dtype": "uint8", "shape": [None, None, 4]},
            {"x": IMAGE},
            r"says \[2, 4, 3\], where",
        ),
        (
            {"kind": "RawFeature", "dtype": "uint8", "shape": [None, None]},
            {"x": b"1234", "x/shape": [2**62, 4]},
            "holds 4 numbers of uint8, and 'x/shape' says",
        ),
        (
            {"kind": "RawFeature", "dtype": "uint8", "shape": [None, None]},
            {"x": b"1234", "x/shape": [-2, -2]},
            "holds 4 numbers of uint8, and 'x/shape' says",
        ),
        (
            {"kind": "ListFeature", "dtype": "uint8", "shape": []},
            {"x": 256},
            "holds 256, which does not fit uint8",
        ),
        (
            {"kind": "ListFeature", "dtype": "bool", "shape": [None]},
            {"x": [1, 2]},
            "holds 2, which does not fit bool",
        ),
        ({"kind": "ListFeature", "dtype": "float16", "shape": []}, {"x": 0.1}, "does not fit float16"),
        ({"kind": "ListFeature", "dtype": "uint8", "shape": []}, {"x": "a"}, "holds bytes values"),
    ],
)
def test_records_that_are_not_what_is_told_are_an_error(tmp_path, told, row, what):
    path = write(tmp_path / "a", row if "x/shape" not in row else example.encode(row))
    write_index(path, None, json.dumps({"x": told}))
    with pytest.raises(SchemaError, match=what):
        read(path)


def test_features_as_json_keep_what_they_say():
    features = {
        "a": fl.RawFeature([None, 3], "bfloat16"),
        "b": fl.ListFeature([None], "int32"),
        "c": fl.TensorFeature([None], "string"),
        "d": fl.FixedLenFeature([2], "string"),
        "e": None,
    }
    text = records.feature_texts.to_json(features)
    assert from_json(text) == features
    assert features_of(msgspec.json.decode(text, type=dict[str, FeatureText | None])) == features


@pytest.mark.parametrize(
    "feature",
    [
        fl.FixedLenFeature([], "int64", default_value=0),
        fl.RaggedFeature("int64", value_key="y"),
        fl.FixedLenSequenceFeature([], "int64", allow_missing=True),
    ],
)
def test_features_that_cannot_be_told_are_surveyed(tmp_path, feature):
    key = getattr(feature, "value_key", None) or "x"
    path = write(
        tmp_path / "a", {key: [1], "r": b"a"}, features={"x": feature, "r": fl.RawFeature([1], "int8")}
    )
    assert os.listdir(tmp_path) == ["a"]
    assert records.infer_features(path) == {
        key: fl.FixedLenFeature([], "int64"),
        "r": fl.FixedLenFeature([], "string"),
    }

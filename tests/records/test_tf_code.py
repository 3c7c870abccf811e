"""tf_features: the code that it gives reads the files with TensorFlow."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import feedline as fl
from feedline import Dataset, ShardedWriter, TFRecordWriter, UsageError, example, records
from feedline.records.features import ARRAY_DTYPES

tf = pytest.importorskip("tensorflow", reason="TensorFlow is the oracle")

DTYPES = [np.dtype(getattr(ml_dtypes, name, name)) for name in ARRAY_DTYPES]


def parsed(path, files=None):
    """What the code reads, as a user runs it: within a graph."""
    scope = {}
    exec(records.tf_features(path), scope)
    files = files or [str(path)]
    return list(tf.data.TFRecordDataset(files).map(scope["parse"]).as_numpy_iterator())


def check(rows, found):
    assert len(rows) == len(found)
    for row, read in zip(rows, found, strict=True):
        assert row.keys() == read.keys()
        for key, value in row.items():
            np.testing.assert_array_equal(read[key], value, strict=not isinstance(value, bytes))


def test_arrays_of_every_dtype_are_read(tmp_path):
    rows = [
        {
            f"{dtype.name} {rank}": np.ones((size, 2, 3)[:rank], dtype)[()] * np.array(n, dtype)
            for dtype in DTYPES
            for rank in range(4)
        }
        for n, size in enumerate((2, 4))
    ]
    with TFRecordWriter(tmp_path / "a") as writer:
        for row in rows:
            writer.write(row)
    for row in rows:
        for key, value in row.items():
            if key.startswith("float8"):  # TensorFlow decodes none
                row[key] = value.view(np.uint8) if value.ndim else np.float32(value)
    check(rows, parsed(tmp_path / "a"))


def test_sets_are_read(tmp_path):
    rows = [
        {
            "image": np.full((n + 1, 4 - n, 3), n, np.uint8),
            "label": np.uint8(n),
            "weight": np.float64(n) / 3,
            "it's": f"{n}".encode(),
            "list": np.arange(n),
            "never": np.zeros(0, np.float32),
        }
        for n in range(4)
    ]
    with ShardedWriter(tmp_path, shards=2) as writer:
        for row in rows:
            writer.write(row)
    check(rows, parsed(tmp_path, [str(path) for path in sorted(tmp_path.glob("*.tfrecord"))]))
    read = list(Dataset.from_tfrecords(tmp_path, "auto"))
    check(rows, read)


def test_what_was_left_out_is_empty(tmp_path):
    with TFRecordWriter(tmp_path / "a") as writer:
        writer.write({"n": 1, "x": [], "y": [], "z": []})
        writer.write({"n": 2, "x": np.ones(2), "y": np.ones((2, 2)), "z": np.ones(2, np.int32)})
    first, second = parsed(tmp_path / "a")
    read = list(Dataset.from_tfrecords(tmp_path / "a", "auto"))
    check(read, [first, second])
    assert (first["x"].shape, first["y"].shape, first["z"].shape) == ((0,), (0, 2), (0,))


def test_files_of_others_are_read(tmp_path):
    with tf.io.TFRecordWriter(str(tmp_path / "a")) as writer:
        for n in range(3):
            writer.write(example.encode({"n": n, "list": list(range(n)), "name": f"{n}"}))
    found = parsed(tmp_path / "a")
    assert [(int(row["n"]), row["list"].tolist(), row["name"]) for row in found] == [
        (n, list(range(n)), f"{n}".encode()) for n in range(3)
    ]


def test_tensors_that_were_asked_for_are_read(tmp_path):
    with TFRecordWriter(tmp_path / "a", features={"t": fl.TensorFeature([None], "int32")}) as writer:
        writer.write({"t": tf.io.serialize_tensor(tf.constant([1, 2])).numpy()})
    check([{"t": np.array([1, 2], np.int32)}], parsed(tmp_path / "a"))
    check([{"t": np.array([1, 2], np.int32)}], list(Dataset.from_tfrecords(tmp_path / "a", "auto")))


def test_sequence_examples_are_refused(tmp_path):
    steps = tf.train.FeatureList(feature=[tf.train.Feature(int64_list=tf.train.Int64List(value=[1]))])
    record = tf.train.SequenceExample(feature_lists=tf.train.FeatureLists(feature_list={"s": steps}))
    with TFRecordWriter(tmp_path / "a") as writer:
        writer.write(record.SerializeToString())
    with pytest.raises(UsageError, match="SequenceExamples"):
        records.tf_features(tmp_path / "a")

"""Files and records of other formats are named in the error, with what to do instead of a repair."""

import gzip
import io
import json
import pickle
import sqlite3
import tarfile
import zipfile
import zlib
from contextlib import closing

import numpy as np
import pytest

from feedline import (
    Cache,
    Dataset,
    FixedLenFeature,
    FixedLenSequenceFeature,
    SequenceFeatures,
    example,
    records,
)
from feedline.errors import CorruptRecord, NotAnExample, NotTFRecord, SchemaError
from feedline.records.blocks import read_blocks
from feedline.records.known_formats import content, file_format
from tests.records.corrupt import field, flip, frames


def npz(path):
    with path.open("wb") as file:
        np.savez(file, x=np.arange(9))


def npy(path):
    with path.open("wb") as file:
        np.save(file, np.arange(9))


def parquet(path):
    arrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet").write_table(arrow.table({"a": [1, 2]}), path)


def arrow_file(path):
    arrow = pytest.importorskip("pyarrow")
    table = arrow.table({"a": [1, 2]})
    with arrow.ipc.new_file(path, table.schema) as file:
        file.write_table(table)


def arrow_stream(path):
    arrow = pytest.importorskip("pyarrow")
    table = arrow.table({"a": [1, 2]})
    with arrow.ipc.new_stream(path, table.schema) as file:
        file.write_table(table)


def hdf5(path):
    with pytest.importorskip("h5py").File(path, "w") as file:
        file["x"] = [1, 2]


def sqlite(path):
    with closing(sqlite3.connect(path)) as database:
        database.execute("create table a (b)")
        database.commit()


def tar_gz(path):
    with tarfile.open(path, "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("a.jpg"), io.BytesIO())


def keras_model(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("metadata.json", "{}")


def cache_part(path):
    location = path.parent / "cache"
    list(Dataset.range(5).cache(location))
    (entry,) = Cache(location).entries()
    path.write_bytes((location / entry.key / "items" / "part-00000000").read_bytes())


def cache_plan(path):
    location = path.parent / "cache"
    list(Dataset.range(5).cache(location))
    (entry,) = Cache(location).entries()
    path.write_bytes((location / entry.key / "items" / "plan").read_bytes())


def index(path):
    data = path.with_name("data.tfrecord")
    data.write_bytes(frames([b"one"]))
    records.index(data)
    (sidecar,) = [one for one in path.parent.rglob("*") if one.is_file() and one != data]
    path.write_bytes(sidecar.read_bytes())


def of(data):
    return lambda path: path.write_bytes(data)


PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
CSV = b"name,age\nAda,36\nAlan,41\n"
FILES = {
    "a NumPy archive (.npz)": (npz, "feedline convert --format npz"),
    "a NumPy array (.npy)": (npy, "np.load("),
    "a Parquet file": (parquet, "feedline convert --format parquet"),
    "a PNG image": (of(PNG), "feedline convert --format images"),
    "a JPEG image": (of(b"\xff\xd8\xff\xe0\0\x10JFIF\0" + bytes(99)), "feedline convert --format images"),
    "a WebP image": (of(b"RIFF\x24\0\0\0WEBPVP8 " + bytes(99)), "feedline convert --format images"),
    "an HDF5 file": (hdf5, "from_generator"),
    "an Arrow file": (arrow_file, "from_generator"),
    "an Arrow stream": (arrow_stream, "from_generator"),
    "a Riegeli file": (of(bytes.fromhex("83af70d10d884a3f") + bytes(56)), "from_generator"),
    "an SQLite database": (sqlite, "from_generator"),
    "a Python pickle": (of(pickle.dumps({"a": [1, 2, 3]})), "from_generator"),
    "a Keras model (.keras)": (keras_model, "load_model"),
    "a tar archive, compressed by gzip": (tar_gz, "tar xf"),
    "comma-separated text (CSV), compressed by gzip": (of(gzip.compress(CSV)), "gunzip"),
    "JSON text, compressed by zlib": (of(zlib.compress(b"[1, 2]")), "zlib.decompress"),
    "a file compressed by Zstandard": (of(b"\x28\xb5\x2f\xfd" + bytes(range(99))), "zstd -d"),
    "comma-separated text (CSV)": (of(CSV), "feedline convert --format csv"),
    "JSON lines": (of(b'{"a": 1}\n{"a": 2}\n'), "feedline convert --format jsonl"),
    "JSON text": (of(json.dumps({"a": [1, 2]}, indent=1).encode()), "from_generator"),
    "text": (of("Grüße\n".encode() * 999), "*.tfrecord"),
    "an HTML page": (of(b"<!DOCTYPE html><html>not found</html>"), "download it again"),
    "a Git LFS pointer in the place of the file": (
        of(b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"),
        "git lfs pull",
    ),
    "a TensorFlow checkpoint": (of(bytes(99) + bytes.fromhex("57fb808b247547db")), "load_checkpoint"),
    "an item of a feedline cache": (cache_part, ".cache("),
    "the index of a TFRecord file": (index, "name the file"),
}


@pytest.fixture(params=FILES)
def known(request, tmp_path):
    """A file that holds no TFRecords, its name, and what the advice holds."""
    path = tmp_path / "a file.tfrecord"
    make, advice = FILES[request.param]
    make(path)
    return path, request.param, advice


def test_a_file_of_another_format_is_named_by_whatever_reads_it(known):
    path, name, advice = known
    for read in (
        lambda: list(Dataset.from_tfrecords(path)),
        lambda: list(records.read(path)),
        lambda: records.count(path),
        lambda: records.survey(path),
        lambda: records.repair(path, path.with_suffix(".out")),
    ):
        with pytest.raises(NotTFRecord) as caught:
            read()
        assert str(caught.value).startswith(f"{path}: this is {name}, not a TFRecord file.\n")
        assert advice in caught.value.remedy
        assert "repair" not in str(caught.value)
    assert not path.with_suffix(".out").exists()


def test_verify_names_the_format_in_its_only_finding(known):
    path, name, advice = known
    (finding,) = records.verify(path).findings
    assert finding.what == f"this is {name}, not a TFRecord file"
    assert advice in finding.remedy


def test_the_warning_about_skipped_damage_names_the_format(tmp_path):
    path = tmp_path / "a.tfrecord"
    npz(path)
    with pytest.warns(RuntimeWarning, match=r"this is a NumPy archive \(\.npz\), not a TFRecord file"):
        assert list(Dataset.from_tfrecords(path, on_corrupt="skip")) == []


def test_the_plan_of_a_cache_entry_is_named(tmp_path):
    cache_plan(tmp_path / "plan")
    assert file_format(str(tmp_path / "plan")).name == "an item of a feedline cache"


def test_the_data_of_a_checkpoint_is_told_by_the_index_beside_it(tmp_path):
    data = tmp_path / "model.data-00000-of-00001"
    data.write_bytes(bytes(99))
    assert file_format(str(data)) is None
    (tmp_path / "model.index").touch()
    assert file_format(str(data)).name == "a TensorFlow checkpoint"


@pytest.mark.parametrize("size", [1, 8, 10, 18, 42, 640, 4096])
def test_a_damaged_tfrecord_file_is_damaged_and_nothing_else(tmp_path, size):
    path = tmp_path / "a.tfrecord"
    sound = frames([b"x" * size] * 3)
    for bit in range(8 * 12):
        path.write_bytes(flip(sound, bit))
        with pytest.raises(CorruptRecord, match="record 0 at byte 0 is corrupt") as caught:
            list(records.read(path))
        assert "feedline repair" in caught.value.remedy
    assert records.repair(path, tmp_path / "out").kept == 2


def test_records_after_a_beginning_of_text_are_kept(tmp_path):
    path = tmp_path / "a.tfrecord"
    path.write_bytes(b"2024-01-01 started\n" * 9 + frames([b"one", b"two"]))
    assert records.verify(path).records == 2
    assert records.repair(path, tmp_path / "out").kept == 2


@pytest.mark.parametrize("head", [b"", b"\n", b"\0" * 99, bytes(range(256)), b"\x1f\x8b"])
def test_bytes_without_a_meaning_have_none(head):
    assert content(head) is None


LABEL = {"label": FixedLenFeature([], "int64")}


@pytest.mark.parametrize(
    ("payload", "told"),
    [
        (b'{"label": 1}', "the payload looks like JSON text: b'{\"label\": 1}'."),
        (b"cat, 1", "the payload looks like text: b'cat, 1'."),
        (PNG, "the payload looks like a PNG image: b'\\x89PNG"),
        (b"\xfe" * 99, "the protobuf message is malformed, and the payload begins with b'\\xfe"),
    ],
)
@pytest.mark.parametrize("indexed", [False, True])
def test_a_sound_record_that_is_no_example_is_told_apart_from_damage(tmp_path, payload, told, indexed):
    path = tmp_path / "a.tfrecord"
    path.write_bytes(frames([example.encode({"label": 1}), payload]))
    if indexed:
        records.index(path)
    rows = Dataset.from_tfrecords(path, LABEL)
    with pytest.raises(NotAnExample) as caught:
        rows[1] if indexed else list(rows)
    assert str(caught.value).startswith(f"{path}: record 1 at byte 34 is not a tf.train.Example: {told}")
    assert "Its length and checksum are right" in str(caught.value)
    assert "verify" not in str(caught.value)
    assert not records.verify(path).findings


def test_a_record_that_was_not_checked_is_not_called_sound(tmp_path):
    path = tmp_path / "a.tfrecord"
    path.write_bytes(frames([b"cat, 1"]))
    with pytest.raises(NotAnExample) as caught:
        list(Dataset.from_tfrecords(path, LABEL, verify=False))
    assert "checksum" not in str(caught.value)


def test_records_that_are_no_examples_can_be_skipped(tmp_path):
    path = tmp_path / "a.tfrecord"
    path.write_bytes(frames([b"cat, 1", example.encode({"label": 1})]))
    with pytest.warns(RuntimeWarning, match="record 0 at byte 0 is not a tf.train.Example"):
        assert list(Dataset.from_tfrecords(path, LABEL, on_corrupt="skip")) == [{"label": 1}]


def test_bytes_in_memory_that_are_no_example_are_shown():
    with pytest.raises(NotAnExample) as caught:
        example.decode(b"cat, 1", LABEL)
    assert str(caught.value) == (
        "record 0 is not a tf.train.Example: the payload looks like text: b'cat, 1'.\n"
        "  To decode it:  give the bytes of a serialized tf.train.Example"
    )


STEPS = field(2, field(1, field(1, b"s") + field(2, b"")))


@pytest.mark.parametrize(
    ("payload", "name"),
    [
        (STEPS, "a tf.train.SequenceExample"),
        (example.encode({"x": 1}) + STEPS, "a tf.train.SequenceExample"),
        (b"\x08\x03\x12\0" + field(4, bytes(8)), "a serialized TensorProto"),
    ],
)
def test_other_messages_are_named_where_a_feature_is_missing(payload, name):
    with pytest.raises(SchemaError, match=f"The record looks like {name}. To "):
        example.decode(payload, LABEL)


def test_nothing_is_guessed_about_an_example_or_what_is_read_as_sequences():
    for payload, features in (
        (example.encode({"x": 1}), LABEL),
        (STEPS, SequenceFeatures(LABEL, {"s": FixedLenSequenceFeature([], "int64")})),
    ):
        with pytest.raises(SchemaError) as caught:
            example.decode(payload, features)
        assert "looks like" not in str(caught.value)


def test_advice_on_a_record_names_the_file(tmp_path):
    path = tmp_path / "a.tfrecord"
    path.write_bytes(frames([b"BZh1" + bytes(88)]))  # to a parser, an Example with one unknown field
    with pytest.raises(SchemaError, match="The record looks like a file compressed by bzip2") as caught:
        list(read_blocks(path, LABEL))
    assert f"bunzip2 {path}\n" in str(caught.value)

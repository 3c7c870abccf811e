"""Examples: whatever TensorFlow reads from one, feedline reads too, bit for bit; what it refuses, we do."""

from __future__ import annotations

import contextlib

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

tf = pytest.importorskip("tensorflow", reason="TensorFlow, the oracle, is not installed")

from feedline import _native  # noqa: E402
from feedline.block import Block  # noqa: E402
from feedline.errors import CorruptRecord, SchemaError  # noqa: E402
from feedline.records import features as ours  # noqa: E402
from feedline.records import read, read_blocks  # noqa: E402
from feedline.records.decode import decode  # noqa: E402
from tests.parity.messages import (  # noqa: E402
    Writer,
    any_value,
    canonical,
    check_equal,
    check_same,
    to_example,
    values,
)
from tests.records.corrupt import example as hand_made  # noqa: E402
from tests.records.corrupt import field, frames, strings  # noqa: E402

KEYS = ("a", "b", "label", "ключ", "鍵" * 50)
SHAPES = ([], [1], [3], [2, 2], [0])
REFUSED = (tf.errors.InvalidArgumentError, tf.errors.DataLossError)


@st.composite
def feature_specs(draw):
    """Random features in tf.io's objects, for some of KEYS."""
    specs = {}
    for key in draw(st.lists(st.sampled_from(KEYS), min_size=1, unique=True)):
        name = draw(st.sampled_from(["string", "float32", "int64"]))
        dtype = tf.as_dtype(name)
        shape = draw(st.sampled_from(SHAPES))
        sort = draw(st.sampled_from(["fixed", "default", "varlen", "steps", "ragged"]))
        if sort == "fixed":
            specs[key] = tf.io.FixedLenFeature(shape, dtype)
        elif sort == "default":
            shape = [] if shape == [0] else shape  # TensorFlow takes an empty default for none
            filler = draw(values(name, int(np.prod(shape))))
            default = np.array(filler, object if name == "string" else name).reshape(shape)
            specs[key] = tf.io.FixedLenFeature(shape, dtype, default_value=default)
        elif sort == "varlen":
            specs[key] = tf.io.VarLenFeature(dtype)
        elif sort == "steps":
            padding = draw(st.none() | values(name, 1).map(lambda one: one[0]))
            if padding == 0:
                padding = 0  # TensorFlow keeps the scalars it has seen, and takes -0.0 for 0.0
            step = [] if shape == [0] else shape
            specs[key] = tf.io.FixedLenSequenceFeature(step, dtype, allow_missing=True, default_value=padding)
        else:
            value_key = draw(st.sampled_from([None, f"values of {key}"]))
            specs[key] = tf.io.RaggedFeature(dtype, value_key=value_key)
    return specs


@st.composite
def fitting(draw, specs):
    """The features of a record that mostly fits, with now and then a wrong kind or count, or one missing."""
    features = {}
    for name in KEYS:
        spec = specs.get(name)
        key = getattr(spec, "value_key", None) or name
        chance = draw(st.integers(0, 23))
        if spec is None or chance == 23:
            if draw(st.booleans()):
                features[key] = draw(any_value())
        elif chance < 21:
            size = int(np.prod(getattr(spec, "shape", [])))
            if not isinstance(spec, tf.io.FixedLenFeature):
                size *= draw(st.integers(0, 4))
            features[key] = (spec.dtype.name, draw(values(spec.dtype.name, size)))
    return features


@st.composite
def cases(draw):
    specs = draw(feature_specs())
    return specs, draw(st.lists(fitting(specs), min_size=1, max_size=4))


def check_batch(records, as_tensorflow_writes_them, specs):
    try:
        expected = tf.io.parse_example(as_tensorflow_writes_them, specs)
    except REFUSED:
        with pytest.raises(SchemaError):
            decode(records, specs)
        return
    found = decode(records, specs)
    assert list(found) == list(specs)
    for key, spec in specs.items():
        check_same(found[key], expected[key], spec)


@given(cases())
def test_a_batch_of_examples_is_what_parse_example_makes_of_it(case):
    specs, rows = case
    records = [to_example(row) for row in rows]
    check_batch(records, records, specs)


@given(cases())
def test_one_example_is_what_parse_single_example_makes_of_it(case):
    specs, rows = case
    record = to_example(rows[0])
    try:
        expected = tf.io.parse_single_example(record, specs)
    except REFUSED:
        with pytest.raises(SchemaError):
            decode(record, specs)
        return
    found = decode(record, specs)
    assert list(found) == list(specs)
    for key, spec in specs.items():
        check_same(found[key], expected[key], spec)


NANS = [0x7FC00000, 0xFFC00000, 0x7FC00001, 0x7F800001, 0xFF800001]  # quiet ones, then signalling ones


@pytest.mark.parametrize("bits", NANS, ids=hex)
def test_a_nan_in_a_record_keeps_its_bits_and_a_nan_in_a_default_stays_a_nan(bits):
    nan = np.array([bits], np.uint32).view(np.float32)
    record = hand_made(a=field(2, field(1, nan.tobytes())))
    check_batch([record], [record], {"a": tf.io.FixedLenFeature([1], tf.float32)})
    missing = {"b": tf.io.FixedLenFeature([1], tf.float32, default_value=nan)}
    check_batch([record], [record], missing)
    assert np.isnan(decode(record, missing)["b"]).all()


@given(cases(), st.integers(0, 2**32))
@settings(max_examples=200)
def test_every_encoding_that_protobuf_allows_is_read_as_protobuf_reads_it(case, seed):
    specs, rows = case
    writer = Writer(seed)
    records = [writer.example(row) for row in rows]
    check_batch(records, [canonical(tf.train.Example.FromString(record)) for record in records], specs)


@st.composite
def damaged(draw, record):
    record = bytearray(record)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(record)))
        if draw(st.booleans()):
            record[at : at + 1] = bytes([draw(st.integers(0, 255))])
        else:
            del record[at : at + draw(st.integers(1, 4))]
    return bytes(record)


@given(cases(), st.data())
@settings(max_examples=200)
def test_damaged_bytes_are_refused_or_read_as_protobuf_reads_them(case, data):
    specs, rows = case
    record = data.draw(damaged(to_example(rows[0])))
    try:
        understood = canonical(tf.train.Example.FromString(record))
    except Exception:  # protobuf has a DecodeError for each of its implementations
        # Features that are not asked for are not looked into, so their damage may pass; it must not crash.
        with contextlib.suppress(CorruptRecord, SchemaError):
            decode(record, specs)
        return
    check_batch([record], [understood], specs)


@given(cases(), st.sampled_from([1, 2, 3, 7, 64]), st.integers(1, 3), st.sampled_from(["", "GZIP", "ZLIB"]))
def test_blocks_from_files_hold_the_rows_that_decode_gives(
    tmp_path_factory, case, rows, threads, compression
):
    specs, features = case
    records = [to_example(each) for each in features] * 5
    try:
        expected = decode(records, specs)
    except SchemaError:
        return
    folder = tmp_path_factory.mktemp("files")
    for number, part in enumerate((records[:7], records[7:])):
        with tf.io.TFRecordWriter(str(folder / f"{number}.tfrecord"), compression) as writer:
            for record in part:
                writer.write(record)
    blocks = list(read_blocks(folder, specs, rows=rows, threads=threads))
    assert [block.rows for block in blocks[:-1]] == [rows] * (len(blocks) - 1)
    batch = Block.concat(blocks).as_batch()
    assert list(batch) == list(specs)
    for key, spec in specs.items():
        found = batch[key]
        if isinstance(spec, tf.io.FixedLenSequenceFeature):
            found = found.to_dense(spec.default_value)
        check_equal(found, expected[key])


def test_thousands_of_values_come_through():
    numbers = np.arange(-5000, 5000) * 10**14
    record = to_example({"a": ("int64", numbers.tolist()), "b": ("float32", numbers.tolist())})
    specs = {"a": tf.io.FixedLenFeature([100, 100], tf.int64), "b": tf.io.VarLenFeature(tf.float32)}
    expected = tf.io.parse_single_example(record, specs)
    found = decode(record, specs)
    check_same(found["a"], expected["a"])
    check_same(found["b"], expected["b"])


def test_our_features_read_what_those_of_tensorflow_read():
    record = to_example({"a": ("int64", [1, 2]), "b": ("string", [b"x"]), "label": ("float32", [0.5])})
    theirs = {
        "a": tf.io.VarLenFeature(tf.int64),
        "b": tf.io.FixedLenFeature([], tf.string, default_value="none"),
        "label": tf.io.FixedLenSequenceFeature([], tf.float32, allow_missing=True),
        "again": tf.io.RaggedFeature(tf.int64, value_key="a"),
    }
    mine = {
        "a": ours.VarLenFeature(np.int64),
        "b": ours.FixedLenFeature([], "string", default_value="none"),
        "label": ours.FixedLenSequenceFeature([], np.float32, allow_missing=True),
        "again": ours.RaggedFeature("int64", value_key="a"),
    }
    one, other = decode(record, mine), decode(record, theirs)
    values_ = {key: np.asarray(value).tolist() for key, value in one.items()}
    assert values_ == {"a": [1, 2], "b": b"x", "label": [0.5], "again": [1, 2]}
    for key in mine:
        check_equal(one[key], other[key])


@pytest.mark.parametrize("value", [b"\x80", b"\x01\xff", b"\xff" * 10 + b"\x01", b"\xff" * 11])
@pytest.mark.parametrize("feature", [tf.io.VarLenFeature(tf.int64), tf.io.FixedLenFeature([], tf.int64)])
def test_a_packed_varint_without_an_end_is_refused_as_tensorflow_refuses_it(value, feature):
    record = hand_made(a=field(3, field(1, value)))
    with pytest.raises(REFUSED):
        tf.io.parse_single_example(record, {"a": feature})
    with pytest.raises(CorruptRecord, match="malformed"):
        decode(record, {"a": feature})


NUMBERS = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128", "bfloat16"),
]
FLOAT8 = ["float8_e5m2", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e4m3b11fnuz", "float8_e5m2fnuz"]


def dtype_of(name):
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def random_array(name, shape, seed=0):
    data = np.random.default_rng(seed).bytes(int(np.prod(shape)) * dtype_of(name).itemsize)
    array = np.frombuffer(data, np.uint8)
    return (array % 2 == 1).reshape(shape) if name == "bool" else array.view(dtype_of(name)).reshape(shape)


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("shape", [(), (3,), (2, 5), (0,), (2, 0)])
def test_a_raw_feature_is_what_decode_raw_makes_of_the_bytes(name, shape):
    arrays = [random_array(name, shape, seed) for seed in range(3)]
    records = [to_example({"a": ("string", [array.tobytes()])}) for array in arrays]
    found = decode(records, {"a": ours.RawFeature(shape, name)})["a"]
    assert (found.dtype, found.shape) == (dtype_of(name), (3, *shape))
    assert found.tobytes() == b"".join(array.tobytes() for array in arrays)
    if name not in ("uint32", "uint64"):  # decode_raw has no kernel for these two
        texts = tf.io.parse_example(records, {"a": tf.io.FixedLenFeature([], tf.string)})["a"]
        assert found.tobytes() == tf.io.decode_raw(texts, tf.as_dtype(name)).numpy().tobytes()


@pytest.mark.parametrize("name", NUMBERS + FLOAT8)
@pytest.mark.parametrize(
    ("shape", "spec"),
    [((), ()), ((3,), (3,)), ((2, 3), (None, 3)), ((2, 3), (None, None)), ((2, 3), (2, None))],
)
def test_a_tensor_feature_is_what_parse_tensor_makes_of_the_bytes(name, shape, spec):
    records, expected = [], []
    for seed in range(3):
        # With a spec of None, each record has another size there.
        sizes = [size + seed if free is None else size for size, free in zip(shape, spec, strict=True)]
        array = random_array(name, sizes, seed)
        if name in FLOAT8:  # TensorFlow has protos of these, but no op that reads or writes them
            proto = tf.make_tensor_proto(np.zeros(sizes, np.uint8))
            del proto.int_val[:]
            proto.dtype, proto.tensor_content = tf.as_dtype(name).as_datatype_enum, array.tobytes()
            text = proto.SerializeToString()
            expected.append(array)
        else:
            text = tf.io.serialize_tensor(array).numpy()
            expected.append(tf.io.parse_tensor(text, tf.as_dtype(name)).numpy())
        records.append(to_example({"a": ("string", [text])}))
    found = decode(records, {"a": ours.TensorFeature(spec, name)})["a"]
    assert len(found) == 3
    for mine, theirs in zip(found, expected, strict=True):
        check_equal(mine, theirs)
    check_equal(decode(records[2], {"a": ours.TensorFeature(spec, name)})["a"], expected[2])


@given(hnp.arrays(np.float32, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0)), st.data())
def test_a_tensor_of_any_shape_is_read_by_a_spec_that_leaves_some_of_it_open(array, data):
    spec = [data.draw(st.sampled_from([size, None])) for size in array.shape]
    record = to_example({"a": ("string", [tf.io.serialize_tensor(array).numpy()])})
    for row in decode([record] * 2, {"a": ours.TensorFeature(spec, "float32")})["a"]:
        check_equal(row, array)


@pytest.mark.parametrize(
    ("feature", "content", "what"),
    [
        (ours.RawFeature([3], "int16"), b"12345", "holds 5 bytes, but its shape and dtype need 6"),
        (ours.TensorFeature([3], "int16"), np.zeros(2, np.int16), r"shape \[2\], but \[3\]"),
        (ours.TensorFeature([None, 2], "int16"), np.zeros(2, np.int16), r"shape \[2\], but \[None, 2\]"),
        (ours.TensorFeature([2], "int16"), np.zeros(2, np.int32), "of int32, but int16"),
    ],
)
def test_an_array_of_another_size_shape_or_dtype_does_not_fit(feature, content, what):
    text = content if isinstance(content, bytes) else tf.io.serialize_tensor(content).numpy()
    with pytest.raises(SchemaError, match=what):
        decode(to_example({"a": ("string", [text])}), {"a": feature})


def test_a_tensor_that_is_cut_off_is_refused_where_tensorflow_refuses_it():
    whole = tf.io.serialize_tensor(np.arange(4)).numpy()
    refused = 0
    for end in range(len(whole)):
        record = hand_made(a=strings(whole[:end]))
        try:
            expected = tf.io.parse_tensor(whole[:end], tf.int64)
        except REFUSED:
            refused += 1
            with pytest.raises((CorruptRecord, SchemaError)):
                decode(record, {"a": ours.TensorFeature([4], "int64")})
            continue
        # Without its shape a tensor is a scalar, and without its content all zeros.
        feature = ours.TensorFeature(expected.shape, "int64")
        check_same(decode(record, {"a": feature})["a"], expected)
    assert refused > 30


RECORDS = st.lists(st.binary(max_size=300) | st.just(b"\0" * 300_000), max_size=20)


@given(RECORDS, st.sampled_from(["", "GZIP", "ZLIB"]))
@settings(max_examples=40)
@example([], "GZIP")
@example([b""], "ZLIB")
def test_files_that_tensorflow_wrote_are_read_as_it_reads_them(tmp_path_factory, records, compression):
    path = tmp_path_factory.mktemp("theirs") / "a.tfrecord"
    with tf.io.TFRecordWriter(str(path), compression) as writer:
        for record in records:
            writer.write(record)
    expected = list(tf.data.TFRecordDataset(str(path), compression).as_numpy_iterator())
    assert expected == records
    assert list(read(path)) == expected
    assert list(read(path, compression=compression)) == expected


@given(RECORDS)
@settings(max_examples=40)
def test_tensorflow_reads_the_files_that_feedline_frames(tmp_path_factory, records):
    path = tmp_path_factory.mktemp("ours") / "a.tfrecord"
    path.write_bytes(b"".join(map(_native.frame, records)))
    assert path.read_bytes() == frames(records)
    assert list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator()) == records

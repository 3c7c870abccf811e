"""SequenceExamples: context and steps as tf.io's two parsers of them give them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

tf = pytest.importorskip("tensorflow", reason="TensorFlow, the oracle, is not installed")

from feedline.block import Block, Ragged  # noqa: E402
from feedline.errors import SchemaError  # noqa: E402
from feedline.records import read_blocks  # noqa: E402
from feedline.records.decode import decode  # noqa: E402
from feedline.records.features import SequenceFeatures  # noqa: E402
from tests.parity.messages import (  # noqa: E402
    Writer,
    any_value,
    canonical,
    check_equal,
    check_same,
    to_feature,
    values,
)
from tests.records.corrupt import frames  # noqa: E402

REFUSED = (tf.errors.InvalidArgumentError, tf.errors.DataLossError)
DTYPES = st.sampled_from([tf.string, tf.float32, tf.int64])
CONTEXT_KEYS = ("id", "Länge")
LIST_KEYS = ("words", "frames", "ключ")


@st.composite
def feature_specs(draw):
    """Random features of the context and of the steps, in tf.io's objects."""
    context, sequence = {}, {}
    for key in draw(st.lists(st.sampled_from(CONTEXT_KEYS), unique=True)):
        dtype = draw(DTYPES)
        sort = draw(st.sampled_from(["fixed", "default", "varlen", "ragged"]))
        if sort == "varlen":
            context[key] = tf.io.VarLenFeature(dtype)
        elif sort == "ragged":
            context[key] = tf.io.RaggedFeature(dtype)
        else:
            default = draw(values(dtype.name, 2)) if sort == "default" else None
            context[key] = tf.io.FixedLenFeature([2], dtype, default_value=default)
    for key in draw(st.lists(st.sampled_from(LIST_KEYS), min_size=1, unique=True)):
        dtype = draw(DTYPES)
        sort = draw(st.sampled_from(["steps", "varlen", "ragged"]))
        if sort == "varlen":
            sequence[key] = tf.io.VarLenFeature(dtype)
        elif sort == "ragged":
            sequence[key] = tf.io.RaggedFeature(dtype)
        else:
            shape = draw(st.sampled_from([[], [2], [2, 1]]))
            sequence[key] = tf.io.FixedLenSequenceFeature(shape, dtype, allow_missing=draw(st.booleans()))
    return context, sequence


@st.composite
def messages(draw, context, sequence):
    """(context, steps by key) of a record that mostly fits."""
    features, lists = {}, {}
    for key, spec in context.items():
        chance = draw(st.integers(0, 11))
        fixed = isinstance(spec, tf.io.FixedLenFeature)
        if chance == 11:
            value = draw(any_value())
            # A Feature without a kind is missing to parse_example and to us, but wrong to this parser.
            if value is not None or not fixed:
                features[key] = value
        elif chance < 10:
            count = 2 if fixed else draw(st.integers(0, 3))
            features[key] = (spec.dtype.name, draw(values(spec.dtype.name, count)))
    for key, spec in sequence.items():
        if draw(st.integers(0, 9)) == 9:
            continue
        lists[key] = []
        for _ in range(draw(st.integers(0, 3))):
            fixed = isinstance(spec, tf.io.FixedLenSequenceFeature)
            count = int(np.prod(spec.shape)) if fixed else draw(st.integers(0, 3))
            good = st.tuples(st.just(spec.dtype.name), values(spec.dtype.name, count))
            lists[key].append(draw(any_value() if draw(st.integers(0, 30)) == 30 else good))
    return features, lists


@st.composite
def cases(draw):
    context, sequence = draw(feature_specs())
    return context, sequence, draw(st.lists(messages(context, sequence), min_size=1, max_size=3))


def serialize(features, lists):
    steps = {key: [to_feature(step) for step in each] for key, each in lists.items()}
    return tf.train.SequenceExample(
        context=tf.train.Features(feature={key: to_feature(value) for key, value in features.items()}),
        feature_lists=tf.train.FeatureLists(
            feature_list={key: tf.train.FeatureList(feature=each) for key, each in steps.items()}
        ),
    ).SerializeToString()


def check_one(record, as_tensorflow_writes_it, context, sequence):
    features = SequenceFeatures(context, sequence)
    try:
        expected = tf.io.parse_single_sequence_example(as_tensorflow_writes_it, context, sequence)
    except REFUSED:
        with pytest.raises(SchemaError):
            decode(record, features)
        return
    found_context, found_steps = decode(record, features)
    assert (list(found_context), list(found_steps)) == (list(context), list(sequence))
    for key, spec in context.items():
        check_same(found_context[key], expected[0][key], spec)
    for key in sequence:
        check_same(found_steps[key], expected[1][key])


@given(cases())
def test_one_record_is_what_parse_single_sequence_example_makes_of_it(case):
    context, sequence, rows = case
    record = serialize(*rows[0])
    check_one(record, record, context, sequence)


@given(cases(), st.integers(0, 2**32))
def test_every_encoding_that_protobuf_allows_is_read_as_protobuf_reads_it(case, seed):
    context, sequence, rows = case
    record = Writer(seed).sequence_example(*rows[0])
    check_one(record, canonical(tf.train.SequenceExample.FromString(record)), context, sequence)


@given(cases())
def test_a_batch_is_what_parse_sequence_example_makes_of_it(case):
    context, sequence, rows = case
    records = [serialize(*row) for row in rows]
    features = SequenceFeatures(context, sequence)
    try:
        expected_context, expected, lengths = tf.io.parse_sequence_example(records, context, sequence)
    except REFUSED:
        with pytest.raises(SchemaError):
            decode(records, features)
        return
    found_context, found = decode(records, features)
    for key, spec in context.items():
        check_same(found_context[key], expected_context[key], spec)
    for key, spec in sequence.items():
        ragged = found[key]
        assert isinstance(ragged, Ragged)
        assert len(ragged) == len(records)
        if isinstance(spec, tf.io.FixedLenSequenceFeature):
            check_same(ragged.to_dense(), expected[key])
            np.testing.assert_array_equal(ragged.lengths, lengths[key].numpy())
        elif isinstance(spec, tf.io.RaggedFeature):
            check_same(ragged, expected[key])
        else:
            check_same(ragged.values.values, expected[key].values)
            steps = [(i, j, len(step)) for i, row in enumerate(ragged) for j, step in enumerate(row)]
            places = [(i, j, k) for i, j, count in steps for k in range(count)]
            assert places == [tuple(place) for place in expected[key].indices.numpy()]


@given(cases(), st.sampled_from([1, 2, 5]), st.integers(1, 3))
def test_blocks_from_files_hold_the_rows_that_decode_gives(tmp_path_factory, case, rows, threads):
    context, sequence, messages_ = case
    features = SequenceFeatures(context, sequence)
    records = [serialize(*message) for message in messages_] * 4
    try:
        expected = [decode(record, features) for record in records]
    except SchemaError:
        return
    path = tmp_path_factory.mktemp("files") / "a.tfrecord"
    path.write_bytes(frames(records))
    block = Block.concat(list(read_blocks(path, features, rows=rows, threads=threads)))
    assert block.rows == len(records)
    for row, wanted in zip(block, expected, strict=True):
        for part, wanted_part in zip(row, wanted, strict=True):
            assert list(part) == list(wanted_part)
            for key in part:
                check_equal(part[key], wanted_part[key])

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feedline import _native
from feedline.records.encode import encode
from feedline.records.features import (
    FixedLenFeature,
    FixedLenSequenceFeature,
    SequenceFeatures,
    VarLenFeature,
)
from feedline.records.surveying import from_survey

tf = pytest.importorskip("tensorflow")

KINDS = {"int64_list": "int64", "float_list": "float32", "bytes_list": "bytes", None: "none"}
VALUES = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3),
    st.lists(st.floats(width=32), max_size=3),
    st.lists(st.binary(max_size=5), max_size=3),
)


def survey_of(records: list[bytes]) -> dict[str, Any]:
    survey = _native.Survey()
    for record in records:
        survey.add(record)
    return survey.result()


def extent(counts: list[int]) -> tuple[int, int] | None:
    return (min(counts), max(counts)) if counts else None


def counted_by_tensorflow(features: list[Any]) -> dict[str, Any]:
    """What a survey says of these tf.train.Feature messages, counted the plain way."""
    kinds = [feature.WhichOneof("kind") for feature in features]
    values = [list(getattr(f, kind).value) if kind else [] for f, kind in zip(features, kinds, strict=True)]
    names = [KINDS[kind] for kind in kinds]
    strings = [len(item) for row in values for item in row if isinstance(item, bytes)]
    return {
        "kinds": {name: names.count(name) for name in names},
        "values": extent([len(row) for row in values]),
        "bytes": extent(strings),
    }


@given(st.lists(st.dictionaries(st.text("ab\u00fc", max_size=2), VALUES), max_size=8))
@settings(max_examples=60)
def test_a_survey_counts_what_tensorflow_finds(examples: list[dict[str, Any]]) -> None:
    records = [encode(example) for example in examples]
    parsed = [tf.train.Example.FromString(record).features.feature for record in records]
    expected = {}
    for key in dict.fromkeys(key for example in examples for key in example):
        found = [features[key] for features in parsed if key in features]
        expected[key] = {"records": len(found), **counted_by_tensorflow(found)}
    result = survey_of(records)
    assert result["context"] == expected
    assert (result["records"], result["malformed"], result["sequence"]) == (len(records), 0, False)


def sequence_example(label: int, frames: list[list[float]], words: list[list[str]]) -> bytes:
    record = tf.train.SequenceExample()
    record.context.feature["label"].int64_list.value.append(label)
    for frame in frames:
        record.feature_lists.feature_list["frames"].feature.add().float_list.value.extend(frame)
    for step in words:
        values = [word.encode() for word in step]
        record.feature_lists.feature_list["words"].feature.add().bytes_list.value.extend(values)
    return bytes(record.SerializeToString())


def test_a_survey_of_sequences_counts_steps_and_infers_their_features() -> None:
    records = [
        sequence_example(1, [[0.0, 1.0]] * 3, [["a", "bcd"], []]),
        sequence_example(2, [[2.0, 3.0]], [["x"]]),
    ]
    result = survey_of(records)
    assert result["sequence"]
    assert result["feature_lists"]["frames"] == {
        "records": 2,
        "kinds": {"float32": 4},
        "values": (2, 2),
        "bytes": None,
        "steps": (1, 3),
    }
    assert result["feature_lists"]["words"]["bytes"] == (1, 3)
    features = from_survey(result)
    assert features == SequenceFeatures(
        {"label": FixedLenFeature([], "int64")},
        {"frames": FixedLenSequenceFeature([2], "float32"), "words": VarLenFeature("string")},
    )
    context, steps = tf.io.parse_single_sequence_example(
        records[0],
        {"label": tf.io.FixedLenFeature([], tf.int64)},
        {"frames": tf.io.FixedLenSequenceFeature([2], tf.float32)},
    )
    assert (context["label"].numpy(), steps["frames"].shape) == (1, (3, 2))


def test_inferred_features_parse_the_records_that_they_came_from() -> None:
    rng = np.random.default_rng(3)
    records = [
        encode({"x": rng.random((2, 3)), "y": i, "tags": ["t"] * (i % 3), "rare": 1.5 if i == 2 else None})
        for i in range(5)
    ]
    features = from_survey(survey_of(records))
    assert features == {
        "x": FixedLenFeature([6], "float32"),
        "y": FixedLenFeature([], "int64"),
        "tags": VarLenFeature("string"),
        "rare": VarLenFeature("float32"),
    }


def test_records_that_are_no_examples_are_counted_and_explained() -> None:
    survey = _native.Survey()
    assert survey.add(encode({"x": 1})) is None
    fault = survey.add(b"not a protobuf")
    assert fault is not None
    assert fault.kind == "corrupt"
    result = survey.result()
    assert (result["records"], result["malformed"]) == (2, 1)
    assert list(result["context"]) == ["x"]


@given(st.lists(st.binary(max_size=40)))
def test_a_survey_survives_any_bytes(records: list[bytes]) -> None:
    result = survey_of(records)
    assert result["records"] == len(records)
    assert all(seen["records"] <= len(records) - result["malformed"] for seen in result["context"].values())

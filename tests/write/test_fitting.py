"""Which examples fit the features that were given, or those of the first example."""

from __future__ import annotations

import numpy as np
import pytest

import feedline as fl
from feedline import SchemaError, UsageError, example
from feedline.write.fitting import Fitting

FIRST = {
    "n": 1,
    "x": np.float32(0.5),
    "name": "a",
    "list": [1, 2],
    "grid": [[1, 2, 3], [4, 5, 6]],
    "image": np.zeros((2, 3), np.uint8),
    "wide": np.zeros(3),
    "label": np.uint8(7),
    "flag": True,
    "tokens": np.arange(3, dtype=np.int32),
}

FIT = [
    {"n": np.int32(5)},
    {"n": True},
    {"n": np.array([5])},
    {"n": np.array([5], np.int16)},
    {"n": np.uint64(5)},
    {"x": 2.5},
    {"x": np.float16(2)},
    {"x": np.float64(2)},
    {"name": b"b"},
    {"name": np.array("c")},
    {"list": []},
    {"list": np.arange(9)},
    {"list": np.arange(9, dtype=np.uint8)},
    {"list": 5},
    {"list": None},
    {"grid": [[7, 8, 9], [1, 2, 3]]},
    {"grid": np.ones(6, np.int64)},
    {"image": np.ones((2, 3), np.uint8)},
    {"image": np.ones((5, 1), np.uint8)},
    {"image": np.ones((2, 3), bool)},
    {"image": [[1, 2, 3], [4, 5, 255]]},
    {"wide": np.zeros(5, np.float32)},
    {"wide": [0.1, 0.2]},
    {"wide": 0.1},
    {"wide": None},
    {"label": 255},
    {"label": np.array([3], np.uint8)},
    {"flag": np.True_},
    {"tokens": [1, 2**31 - 1]},
    {"tokens": []},
    {"tokens": np.zeros(7, np.int16)},
]

UNFIT = [
    ({"n": 1.5}, "feature 'n': it is one float32 here, and the first example had one int64"),
    ({"n": [1, 2]}, "feature 'n': it is int64 of shape (2,) here, and the first example had one int64"),
    ({"n": []}, "feature 'n': it is no values of shape (0,) here"),
    ({"n": "1"}, "feature 'n': it is one string here"),
    ({"n": None}, "feature 'n': it is missing, and the first example had one int64"),
    (
        {"list": ["a"]},
        "feature 'list': it is string of shape (1,) here, and the first example had int64 of any",
    ),
    (
        {"list": np.zeros((2, 2), np.int64)},
        "it is int64 of shape (2, 2) here, and the first example had int64 of",
    ),
    (
        {"grid": [[1, 2], [3, 4]]},
        "'grid': it is int64 of shape (2, 2) here, and the first example had int64 of",
    ),
    ({"image": np.zeros((3, 2, 1), np.uint8)}, "'image': it is uint8 of shape (3, 2, 1) here, and the first"),
    (
        {"image": np.zeros(6, np.uint8)},
        "it is uint8 of shape (6,) here, and the first example had uint8 of 2 dim",
    ),
    (
        {"image": np.zeros((2, 3))},
        "it is float64 of shape (2, 3) here, and the first example had uint8 of 2 dimensions",
    ),
    ({"image": np.zeros((2, 3), np.int64)}, "it is int64 of shape (2, 3) here"),
    ({"image": None}, "feature 'image': it is missing, and the first example had uint8 of 2 dimensions"),
    ({"image": b"123456"}, "feature 'image': it is one string here"),
    (
        {"wide": np.zeros((1, 3))},
        "it is float64 of shape (1, 3) here, and the first example had float64 of any",
    ),
    ({"wide": [1, 2]}, "it is int64 of shape (2,) here, and the first example had float64 of any length"),
    ({"label": np.int16(7)}, "feature 'label': it is one int16 here, and the first example had one uint8"),
    ({"flag": 1}, "feature 'flag': it is one int64 here, and the first example had one bool"),
    (
        {"tokens": np.arange(3)},
        "it is int64 of shape (3,) here, and the first example had int32 of any length",
    ),
    ({"more": 1}, "feature 'more': it is one int64, and the first example had nothing of that name"),
]

TOO_LARGE = [
    ({"x": np.float64(0.1)}, "feature 'x': holds 0.1, which does not fit float32"),
    ({"label": 256}, "feature 'label': holds 256, which does not fit uint8"),
    ({"label": -1}, "feature 'label': holds -1, which does not fit uint8"),
    ({"tokens": [2**31]}, "feature 'tokens': holds 2147483648, which does not fit int32"),
    ({"image": [[1, 2, 3], [4, 5, 256]]}, "feature 'image': holds 256, which does not fit uint8"),
]


@pytest.mark.parametrize("change", FIT)
def test_what_fits_the_first_example(change):
    fitting = Fitting()
    fitting.record(FIRST)
    wanted = FIRST | change
    stored = dict(wanted)
    for key, dtype in (("image", np.uint8), ("wide", np.float64)):
        if wanted[key] is not None:
            stored[key] = np.array(wanted[key], dtype).tobytes()
    stored["image/shape"] = np.shape(wanted["image"])
    for _ in range(2):
        assert fitting.record(wanted) == example.encode(stored)


@pytest.mark.parametrize(("change", "told"), UNFIT + TOO_LARGE)
def test_what_does_not_fit_is_refused(change, told):
    fitting = Fitting()
    fitting.record(FIRST)
    for _ in range(2):
        with pytest.raises(SchemaError) as caught:
            fitting.record(FIRST | change)
        assert told in str(caught.value)
        assert "Nothing of this example was written" in str(caught.value)
    fitting.record(FIRST)


@pytest.mark.parametrize("as_array", [False, True])
@pytest.mark.parametrize(("change", "told"), UNFIT + TOO_LARGE)
def test_rows_of_columns_are_refused_likewise(change, told, as_array):
    fitting = Fitting()
    fitting.record(FIRST)
    rows = {key: None if value is None else [value] for key, value in (FIRST | change).items()}
    if as_array:
        rows = {key: _stacked(value) for key, value in rows.items()}
    with pytest.raises(SchemaError) as caught:
        fitting.records(rows)
    assert told in str(caught.value)


def _stacked(column):
    """As one array, unless that would change what it holds."""
    is_array = column is not None and isinstance(column[0], np.ndarray | np.generic)
    return np.stack(column) if is_array else column


def test_columns_tell_what_the_others_must_be():
    fitting = Fitting()
    fitting.records({"n": np.arange(3), "list": fl.Ragged(np.array([1.0, 2.0], "f4"), [0, 1, 1, 2])})
    assert fitting.features == {"n": fl.FixedLenFeature([], "int64"), "list": fl.VarLenFeature("float32")}
    fitting.record({"n": 1, "list": [0.5]})
    with pytest.raises(SchemaError, match="'list': it is string"):
        fitting.record({"n": 1, "list": ["a"]})


def test_every_row_of_a_list_is_looked_at():
    with pytest.raises(SchemaError, match=r"'x': it is float64 of shape \(1,\) here, and the first"):
        Fitting().records(
            {"x": [np.zeros((2, 2)), np.zeros((2, 2)), np.zeros((4, 1), np.float32), np.zeros(1)]}
        )
    with pytest.raises(UsageError, match="feature 'x': the lists in it have different lengths"):
        Fitting().records({"x": [[1, 2], [1]]})


def test_what_is_refused_tells_nothing_of_the_others():
    fitting = Fitting()
    with pytest.raises(UsageError, match="mixes"):
        fitting.record({"x": [1, "a"]})
    fitting.record({"x": "a"})
    fitting = Fitting()
    fitting.record({"a": [], "b": 1})
    with pytest.raises(SchemaError):
        fitting.record({"a": [1], "b": "no"})
    fitting.record({"a": [1.5], "b": 2})


RAGGED = [
    (fl.FixedLenFeature([3], "int64"), [3, 3], True),
    (fl.FixedLenFeature([3], "int64"), [3, 2], False),
    (fl.FixedLenFeature([], "int64"), [1, 1], True),
    (fl.FixedLenFeature([2, 2], "int64"), [4], True),
    (fl.FixedLenSequenceFeature([2], "int64", allow_missing=True), [2, 4, 0], True),
    (fl.FixedLenSequenceFeature([2], "int64", allow_missing=True), [2, 3], False),
    (fl.VarLenFeature("int64"), [0, 5], True),
    (fl.RaggedFeature("int64"), [0, 5], True),
]


@pytest.mark.parametrize(("feature", "lengths", "fits"), RAGGED)
def test_rows_of_a_ragged_fit_as_they_do_alone(feature, lengths, fits):
    column = fl.Ragged(np.arange(sum(lengths)), np.cumsum([0, *lengths]))
    for one_by_one in (False, True):
        fitting = Fitting({"x": feature})
        try:
            if one_by_one:
                for row in column:
                    fitting.record({"x": row})
            else:
                fitting.records({"x": column})
            found = True
        except SchemaError:
            found = False
        assert found == fits


def test_a_ragged_of_lists_may_change_its_length():
    fitting = Fitting()
    fitting.records({"x": fl.Ragged(np.zeros((3, 2)), [0, 1, 3])})
    assert fitting.features == {"x": fl.RawFeature([None, 2], "float64")}


def test_an_array_of_objects_is_what_it_holds():
    fitting = Fitting()
    fitting.record({"x": np.array(["a", "b"], object)})
    for wrong in ({"x": np.array([1, 2], object)}, {"x": [1]}):
        with pytest.raises(SchemaError, match="'x': it is int64"):
            fitting.record(wrong)
    with pytest.raises(SchemaError, match="'x': it is int64"):
        fitting.records({"x": np.array([[1, 2]], object)})


def test_a_ragged_feature_is_found_under_its_value_key():
    fitting = Fitting({"words": fl.RaggedFeature("int64", value_key="w")})
    fitting.record({"w": [1, 2]})
    with pytest.raises(SchemaError, match="'words': it is"):
        fitting.record({"words": [1, 2]})


def test_no_rows_tell_nothing():
    fitting = Fitting()
    fitting.records({"n": np.zeros(0)})
    assert fitting.features is None


def test_what_was_empty_at_first_is_learned_later():
    fitting = Fitting()
    fitting.record({"n": 1, "list": []})
    fitting.record({"n": 1})
    fitting.record({"n": 1, "list": ["a"]})
    with pytest.raises(SchemaError, match="'list': it is int64 of shape"):
        fitting.record({"n": 1, "list": [1]})


def test_given_features_are_kept_to():
    fitting = Fitting(
        {
            "image": fl.FixedLenFeature([2, 2], "float32"),
            "label": fl.FixedLenFeature([], "int64", default_value=0),
            "words": fl.VarLenFeature("string"),
            "pairs": fl.FixedLenSequenceFeature([2], "int64", allow_missing=True),
            "raw": fl.RawFeature([2], "uint8"),
        }
    )
    fits = {"image": np.zeros((2, 2)), "raw": b"ab"}
    fitting.record(fits)
    fitting.record(fits | {"image": np.zeros(4), "label": 1, "words": ["a", "b"], "pairs": [1, 2, 3, 4]})
    for change, told in [
        ({"image": np.zeros(3)}, "is float64 of shape (3,) here, and features says float32 of shape (2, 2)"),
        ({"image": None}, "is missing, and features says float32 of shape (2, 2)"),
        ({"pairs": [1, 2, 3]}, "is int64 of shape (3,) here, and features says FixedLenSequenceFeature"),
        ({"raw": np.zeros(3, np.uint8)}, "is uint8 of shape (3,) here, and features says RawFeature"),
        ({"more": 1}, "is one int64, and features says nothing of that name"),
    ]:
        with pytest.raises(SchemaError) as caught:
            fitting.record(fits | change)
        assert told in str(caught.value)


def test_what_is_no_example_is_refused():
    for wrong in ([1], "text", None, 5):
        with pytest.raises(UsageError, match="give a dict of features, or the bytes of a record"):
            Fitting().record(wrong)
    with pytest.raises(UsageError, match="SequenceExamples"):
        Fitting(fl.SequenceFeatures({}, {"a": fl.VarLenFeature("int64")}))


def test_a_batch_of_bytes_is_taken_as_it_is():
    payloads, offsets = Fitting().records([b"ab", b"", b"c"])
    assert (payloads.tobytes(), offsets.tolist()) == (b"abc", [0, 2, 2, 3])
    for wrong in ([b"a", "b"], b"ab", np.arange(3)):
        with pytest.raises(UsageError, match="a list of records as bytes"):
            Fitting().records(wrong)


def test_bytes_are_taken_as_they_are():
    fitting = Fitting()
    assert fitting.record(b"\xff\xff") == b"\xff\xff"
    assert fitting.record(bytearray(b"ab")) == b"ab"
    assert fitting.features is None

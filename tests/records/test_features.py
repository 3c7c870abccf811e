from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest

from feedline.errors import SchemaError, UsageError
from feedline.records.features import (
    STRING,
    FixedLenFeature,
    FixedLenSequenceFeature,
    RaggedFeature,
    RawFeature,
    SequenceFeatures,
    TensorFeature,
    VarLenFeature,
    normalize,
)
from feedline.records.surveying import from_survey

tf = pytest.importorskip("tensorflow")

EVERY_SORT = [
    FixedLenFeature([2, 3], "float32"),
    FixedLenFeature([], "float32", default_value=math.nan),
    FixedLenFeature([2], "string", default_value=["a", b"b"]),
    FixedLenFeature([2, 2], "int64", default_value=np.arange(4)),
    VarLenFeature("string"),
    FixedLenSequenceFeature([2], "int64", allow_missing=True, default_value=-1),
    RaggedFeature("int64", value_key="v", row_splits_dtype="int64"),
    RawFeature([4], "bool"),
    TensorFeature([None, 2], "bfloat16"),
]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        *((given, np.dtype(np.int64)) for given in (np.int64, "int64", tf.int64, np.dtype(">i8"))),
        *((given, np.dtype(np.float32)) for given in (np.float32, "float32", tf.float32, np.dtype("f4"))),
        *((given, STRING) for given in (bytes, str, "string", tf.string, np.object_, object, np.bytes_)),
    ],
)
def test_every_spelling_of_a_dtype_is_kept_as_the_same_numpy_dtype(given: Any, kept: np.dtype[Any]) -> None:
    assert VarLenFeature(given).dtype == kept
    assert VarLenFeature(given).dtype.isnative


@pytest.mark.parametrize("given", ["int32", np.float64, tf.bfloat16, bool, "nonsense", None, 3, complex])
def test_a_dtype_that_examples_do_not_hold_is_refused_by_naming_those_they_do(given: Any) -> None:
    with pytest.raises(UsageError, match="int64, float32 and string"):
        FixedLenFeature([], given)


@pytest.mark.parametrize("name", ["bool", "uint8", "int16", "float16", "float64", "complex64", "bfloat16"])
def test_raw_and_tensor_features_take_numeric_dtypes_by_name_or_as_tensorflows(name: str) -> None:
    assert RawFeature([2], name).dtype == tf.as_dtype(name).as_numpy_dtype
    assert TensorFeature([2], tf.as_dtype(name)) == TensorFeature([2], name)


def test_tensors_may_be_of_strings() -> None:
    assert TensorFeature([2], tf.string) == TensorFeature([2], "string")
    assert TensorFeature([2], bytes).dtype == STRING


@pytest.mark.parametrize("given", ["string", np.longdouble, "M8[s]", ">f4", np.dtype([("a", "i4")])])
def test_raw_features_refuse_what_is_no_little_endian_number(given: Any) -> None:
    with pytest.raises(UsageError, match="RawFeature"):
        RawFeature([2], given)


@pytest.mark.parametrize(
    ("given", "kept"), [([], ()), (3, (3,)), ((2, np.int32(3)), (2, 3)), (tf.TensorShape([4]), (4,))]
)
def test_shapes_are_kept_as_tuples_of_ints(given: Any, kept: tuple[int, ...]) -> None:
    assert FixedLenFeature(given, "int64").shape == kept


@pytest.mark.parametrize("given", [None, "3", [2.5], [-1], tf.TensorShape(None)])
def test_what_is_no_shape_is_refused(given: Any) -> None:
    with pytest.raises(UsageError, match="shape"):
        FixedLenFeature(given, "int64")


def test_an_unknown_dimension_is_for_tensor_features_only() -> None:
    assert TensorFeature([None, 2], "int8").shape == (None, 2)
    with pytest.raises(UsageError, match="VarLenFeature"):
        FixedLenFeature([None], "int64")


def test_a_scalar_default_fills_the_shape() -> None:
    default = FixedLenFeature([2, 2], "float32", default_value=1).default_array()
    assert default is not None
    assert default.dtype == np.float32
    assert default.tolist() == [[1.0, 1.0], [1.0, 1.0]]


@pytest.mark.parametrize(
    ("shape", "dtype", "default"),
    [
        ([2, 2], tf.int64, [1, 2, 3, 4]),
        ([2], tf.int64, np.array([5, 6], np.int32)),
        ([], tf.int64, True),
        ([], tf.int64, tf.constant(3, tf.int64)),
        ([1], tf.float32, 2),
        ([], tf.float32, [0.1]),
        ([2], tf.string, ["a", "ü"]),
    ],
)
def test_a_default_means_what_it_means_to_tensorflow(shape: Any, dtype: Any, default: Any) -> None:
    theirs = tf.io.FixedLenFeature(shape, dtype, default)
    parsed = tf.io.parse_single_example(tf.train.Example().SerializeToString(), {"a": theirs})["a"].numpy()
    ours = normalize({"a": theirs})
    assert isinstance(ours, dict)
    assert isinstance(ours["a"], FixedLenFeature)
    np.testing.assert_array_equal(ours["a"].default_array(), parsed, strict=dtype != tf.string)


@pytest.mark.parametrize(
    ("dtype", "default"),
    [
        ("int64", 1.0),
        ("int64", "1"),
        ("int64", [1, 2, 3]),
        ("int64", 2**63),
        ("int64", [[1], [2, 3]]),
        ("float32", b"x"),
        ("float32", 1e300),
        ("string", 1),
        ("string", [b"x", 2]),
    ],
)
def test_a_default_of_another_kind_or_size_is_refused(dtype: str, default: Any) -> None:
    with pytest.raises(UsageError, match="default_value"):
        FixedLenFeature([2], dtype, default)


def test_the_default_of_a_sequence_is_a_scalar_that_pads() -> None:
    assert FixedLenSequenceFeature([2], "int64", default_value=[7]).default_value == 7
    with pytest.raises(UsageError, match="scalar"):
        FixedLenSequenceFeature([2], "int64", default_value=[7, 8])
    with pytest.raises(UsageError, match="counted"):
        FixedLenSequenceFeature([0], "int64")


@pytest.mark.parametrize("feature", EVERY_SORT, ids=repr)
def test_features_pickle_compare_and_hash_by_value(feature: Any) -> None:
    again = pickle.loads(pickle.dumps(feature))
    assert again == feature
    assert hash(again) == hash(feature)
    assert len({again, *EVERY_SORT}) == len(EVERY_SORT)


@pytest.mark.parametrize("feature", EVERY_SORT, ids=repr)
def test_the_repr_of_a_feature_makes_it_again(feature: Any) -> None:
    assert eval(repr(feature), {**globals(), "nan": math.nan}) == feature


def test_features_are_frozen() -> None:
    with pytest.raises(AttributeError):
        VarLenFeature("int64").dtype = STRING  # type: ignore[misc]


def test_tf_io_objects_become_ours() -> None:
    ours = normalize(
        {
            "fixed": tf.io.FixedLenFeature([2], tf.int64, 3),
            "var": tf.io.VarLenFeature(tf.string),
            "steps": tf.io.FixedLenSequenceFeature([], tf.float32, True, 0.5),
            "ragged": tf.io.RaggedFeature(tf.int64, "v", row_splits_dtype=tf.int64),
            "ours": VarLenFeature("int64"),
        }
    )
    assert ours == {
        "fixed": FixedLenFeature([2], "int64", 3),
        "var": VarLenFeature("string"),
        "steps": FixedLenSequenceFeature([], "float32", True, 0.5),
        "ragged": RaggedFeature("int64", "v", row_splits_dtype="int64"),
        "ours": VarLenFeature("int64"),
    }
    assert list(ours) == ["fixed", "var", "steps", "ragged", "ours"]


@pytest.mark.parametrize(
    ("feature", "message"),
    [
        (tf.io.SparseFeature("i", "v", tf.int64, 9), r"feature 'k': SparseFeature .* VarLenFeature"),
        (tf.io.FixedLenFeature([], tf.int32), r"feature 'k': FixedLenFeature: dtype tf.int32"),
        (
            tf.io.RaggedFeature(tf.int64, partitions=[tf.io.RaggedFeature.RowSplits("s")]),
            r"feature 'k': RaggedFeature: partitions=\(RowSplits\(key='s'\),\)",
        ),
        (VarLenFeature, r"feature 'k': .* is no feature object"),
        ("int64", r"feature 'k': 'int64' is no feature object"),
    ],
)
def test_an_unfit_feature_is_refused_by_its_key(feature: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        normalize({"k": feature})


@pytest.mark.parametrize("features", [{}, None, [VarLenFeature("int64")], {1: VarLenFeature("int64")}])
def test_features_must_be_a_dict_by_name(features: Any) -> None:
    with pytest.raises(UsageError):
        normalize(features)


def test_sequence_features_describe_context_and_steps_and_take_tf_io_objects() -> None:
    features = SequenceFeatures(
        {"id": tf.io.FixedLenFeature([], tf.int64)}, {"words": tf.io.VarLenFeature(tf.string)}
    )
    assert features.context == {"id": FixedLenFeature([], "int64")}
    assert features.sequence == {"words": VarLenFeature("string")}
    assert normalize(features) is features
    assert pickle.loads(pickle.dumps(features)) == features
    assert hash(pickle.loads(pickle.dumps(features))) == hash(features)


def test_a_step_cannot_be_a_fixed_len_feature() -> None:
    with pytest.raises(UsageError, match=r"'x': a FixedLenFeature .* Use FixedLenSequenceFeature"):
        SequenceFeatures({}, {"x": FixedLenFeature([], "int64")})


def seen(records: int, values: tuple[int, int], **kinds: int) -> dict[str, Any]:
    return {"records": records, "values": values, "kinds": kinds}


def survey(records: int, malformed: int = 0, **more: Any) -> dict[str, Any]:
    empty: dict[str, Any] = {"context": {}, "feature_lists": {}, "sequence": False, "too_many_keys": False}
    return {"records": records, "malformed": malformed, **empty, **more}


def test_inferred_features_are_fixed_where_every_record_agrees() -> None:
    context = {
        "label": seen(9, (1, 1), int64=9),
        "image": seen(9, (784, 784), float32=9),
        "words": seen(9, (0, 12), bytes=9),
        "rare": seen(8, (1, 1), int64=8),
        "sometimes empty": seen(9, (0, 1), int64=8, none=1),
        "never": seen(9, (0, 0), none=9),
        "no values": seen(9, (0, 0), float32=9),
    }
    assert from_survey(survey(10, malformed=1, context=context)) == {
        "label": FixedLenFeature([], "int64"),
        "image": FixedLenFeature([784], "float32"),
        "words": VarLenFeature("string"),
        "rare": VarLenFeature("int64"),
        "sometimes empty": VarLenFeature("int64"),
        "no values": VarLenFeature("float32"),
    }


def test_inferred_steps_are_fixed_where_every_step_agrees() -> None:
    lists = {
        "frame": seen(5, (4, 4), float32=70),
        "token": seen(4, (1, 1), int64=30),
        "tags": seen(5, (0, 3), bytes=70),
    }
    assert from_survey(survey(5, sequence=True, feature_lists=lists)) == SequenceFeatures(
        {},
        {
            "frame": FixedLenSequenceFeature([4], "float32"),
            "token": FixedLenSequenceFeature([], "int64", allow_missing=True),
            "tags": VarLenFeature("string"),
        },
    )


def test_a_key_of_two_kinds_is_a_schema_error_that_names_it() -> None:
    with pytest.raises(SchemaError, match=r"'x': .* 7 times as int64, 2 times as bytes"):
        from_survey(survey(9, context={"x": seen(9, (1, 1), int64=7, bytes=2)}))


@pytest.mark.parametrize(
    "result", [survey(0), survey(3, malformed=3), survey(3), survey(9, too_many_keys=True)]
)
def test_nothing_is_inferred_from_what_holds_no_examples(result: dict[str, Any]) -> None:
    with pytest.raises(SchemaError):
        from_survey(result)

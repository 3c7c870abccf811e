from __future__ import annotations

import collections
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from feedline import _native
from feedline.column import Bytes, Ragged
from feedline.errors import UsageError
from feedline.records.encode import encode, encode_batch, encode_columns

tf = pytest.importorskip("tensorflow")

INTS = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(width=32, allow_nan=False)
STRINGS = st.binary(max_size=20) | st.text(max_size=20)
LISTS = st.one_of(
    st.lists(INTS, min_size=1, max_size=20),
    st.lists(FLOATS, min_size=1, max_size=20),
    st.lists(STRINGS, min_size=1, max_size=20),
)


def arrays(dtype: str, shape: Any) -> st.SearchStrategy[np.ndarray[Any, Any]]:
    """Arrays whose numbers fit an Example exactly."""
    width: Any = min(32, 8 * np.dtype(dtype).itemsize)
    floats = st.floats(width=width, allow_nan=False)
    return hnp.arrays(dtype, shape, elements=floats if "f" in dtype else None)


DTYPES = ["<i8", ">i8", "<i4", "<u4", ">u2", "u1", "i1", "?", "<f4", ">f4", "<f8", ">f8", "<f2"]
SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5)
ARRAYS = st.sampled_from(DTYPES).flatmap(lambda dtype: arrays(dtype, SHAPES))
VALUES = INTS | FLOATS | STRINGS | LISTS | ARRAYS


def parsed(record: bytes) -> dict[str, tuple[str | None, list[Any]]]:
    features = tf.train.Example.FromString(record).features.feature
    lists = {key: feature.WhichOneof("kind") for key, feature in features.items()}
    return {
        key: (kind, list(getattr(features[key], kind).value) if kind else []) for key, kind in lists.items()
    }


def meant(value: Any) -> tuple[str | None, list[Any]]:
    """What TensorFlow should find, said in the plainest way."""
    if isinstance(value, np.ndarray):
        kind = "float_list" if value.dtype.kind == "f" else "int64_list"
        return kind, value.ravel().tolist()
    values = value if isinstance(value, list) else [value]
    if not values:
        return None, []
    if isinstance(values[0], bytes | str):
        return "bytes_list", [item.encode() if isinstance(item, str) else item for item in values]
    return ("float_list" if isinstance(values[0], float) else "int64_list"), values


@given(st.dictionaries(st.text(max_size=10), VALUES, max_size=5))
def test_what_is_encoded_parses_in_tensorflow_to_what_was_meant(example: dict[str, Any]) -> None:
    assert parsed(encode(example)) == {key: meant(value) for key, value in example.items()}


@given(hnp.arrays(np.float32, (2, 3)), st.lists(INTS, max_size=5), st.binary())
@settings(max_examples=30)
def test_tf_io_parses_it_to_the_same_arrays(x: np.ndarray[Any, Any], ints: list[int], text: bytes) -> None:
    record = encode({"x": x, "ints": ints, "text": text})
    features = {
        "x": tf.io.FixedLenFeature([2, 3], tf.float32),
        "ints": tf.io.VarLenFeature(tf.int64),
        "text": tf.io.FixedLenFeature([], tf.string),
    }
    found = tf.io.parse_single_example(record, features)
    np.testing.assert_array_equal(found["x"].numpy(), x)
    assert found["ints"].values.numpy().tolist() == ints
    assert found["text"].numpy() == text


@pytest.mark.parametrize(
    ("value", "kind", "values"),
    [
        (True, "int64_list", [1]),
        (np.bool_(True), "int64_list", [1]),
        (np.int64(-3), "int64_list", [-3]),
        (np.uint8(200), "int64_list", [200]),
        (np.uint64(5), "int64_list", [5]),
        (np.float32(0.5), "float_list", [0.5]),
        (np.float64(0.1), "float_list", [float(np.float32(0.1))]),
        (np.float16(0.5), "float_list", [0.5]),
        (tf.bfloat16.as_numpy_dtype(0.5), "float_list", [0.5]),
        (np.array([1.5, 2], tf.bfloat16.as_numpy_dtype), "float_list", [1.5, 2.0]),
        (float("inf"), "float_list", [float("inf")]),
        (bytearray(b"ab"), "bytes_list", [b"ab"]),
        (memoryview(b"ab"), "bytes_list", [b"ab"]),
        (np.str_("ü"), "bytes_list", ["ü".encode()]),
        (np.array(["a", "bc"]), "bytes_list", [b"a", b"bc"]),
        (np.array([b"a", "b\0"], object), "bytes_list", [b"a", b"b\0"]),
        ((1, 2), "int64_list", [1, 2]),
        ([np.int32(1), True, 2], "int64_list", [1, 1, 2]),
        ([[1, 2], (3, 4)], "int64_list", [1, 2, 3, 4]),
        ([np.zeros(2), np.ones(2)], "float_list", [0.0, 0.0, 1.0, 1.0]),
        ([[b"a\0"], ["b"]], "bytes_list", [b"a\0", b"b"]),
        (np.arange(6).reshape(2, 3).T, "int64_list", [0, 3, 1, 4, 2, 5]),
        (np.arange(6.0)[::2], "float_list", [0.0, 2.0, 4.0]),
        (tf.constant([[1, 2]]), "int64_list", [1, 2]),
        (tf.constant(["a", "b"]), "bytes_list", [b"a", b"b"]),
        ([], None, []),
        ((), None, []),
        ([[], []], None, []),
        (np.zeros((0, 3), np.float32), "float_list", []),
        (np.zeros(0, np.int64), "int64_list", []),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_usual_type_has_its_kind(value: Any, kind: str | None, values: list[Any]) -> None:
    assert parsed(encode({"x": value})) == {"x": (kind, values)}


def test_none_leaves_the_feature_out() -> None:
    assert encode({"x": None, "y": 1}) == encode({"y": 1})
    assert encode({"x": None}) == encode({}) == b""


def test_an_empty_list_reads_as_no_values_of_any_kind() -> None:
    record = encode({"x": []})
    for dtype in (tf.int64, tf.float32, tf.string):
        assert tf.io.parse_single_example(record, {"x": tf.io.VarLenFeature(dtype)})["x"].shape == (0,)


def test_any_mapping_is_taken_and_its_order_kept() -> None:
    mapping = collections.OrderedDict([("b", 1), ("a", 2.5)])
    assert encode(collections.ChainMap(mapping)) == encode({"b": 1, "a": 2.5}) == encode(mapping)
    assert encode({"b": 1, "a": 2.5}) != encode({"a": 2.5, "b": 1})


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (2**63, "9223372036854775808 does not fit int64"),
        ([1, -(2**63) - 1], "does not fit int64"),
        (np.uint64(2**63), "does not fit int64"),
        (np.array([1, 2**64 - 1], np.uint64), r"array.view\(np.int64\)"),
        (1e300, r"1e\+300 does not fit float32"),
        (np.array([1.0, -1e300]), "does not fit float32"),
        (1j, "1j, a complex"),
        (np.zeros(2, complex), "an array of complex128"),
        (np.datetime64("2020-01-01"), "an array of datetime64"),
        ({"a": 1}, "a dict"),
        ({1, 2}, "a set"),
        (..., "an? ellipsis"),
        ([None], "None, a NoneType"),
        ([1, 2.5], r"mixes int64 \(1\) and float32 \(2.5\)"),
        ([1, "a"], r"mixes int64 \(1\) and bytes \('a'\)"),
        (np.array([1, b"a"], object), "mixes"),
        ([[1], [2, 3]], "different lengths"),
        ([1, [2]], "different lengths"),
        (np.array([[1], [2, 3]], object), r"\[1\], a list"),
        ("\ud800", "cannot be encoded as UTF-8"),
    ],
    ids=repr,
)
def test_what_an_example_cannot_hold_is_refused_by_name(value: Any, words: str) -> None:
    with pytest.raises(UsageError, match=f"feature 'x': .*{words}"):
        encode({"fine": 1, "x": value})


@pytest.mark.parametrize("example", [{1: 2}, {b"x": None}, {"\ud800": 1}, [("x", 1)], None])
def test_names_are_strings_in_a_mapping(example: Any) -> None:
    with pytest.raises(UsageError, match=r"str|UTF-8|dict"):
        encode(example)


def test_a_dict_that_changes_under_the_encoder_does_no_harm() -> None:
    class Evil:
        def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray[Any, Any]:
            example.clear()
            example.update({f"more{i}": "x" * i for i in range(100)})
            return np.zeros(2)

    example: dict[str, Any] = {"a": bytes(1000), "b": Evil(), "c": "c" * 1000}
    with pytest.raises(RuntimeError, match="changed"):
        encode(example)


# -- columns


def columns_of(rows: int) -> st.SearchStrategy[dict[str, Any]]:
    shapes = st.tuples(st.just(rows), st.integers(0, 4)) | st.just((rows,))
    column = st.one_of(
        st.sampled_from(DTYPES).flatmap(lambda dtype: arrays(dtype, shapes)),
        st.lists(STRINGS, min_size=rows, max_size=rows),
        st.lists(INTS, min_size=rows, max_size=rows),
    )
    return st.dictionaries(st.text(max_size=5), column, min_size=1, max_size=4)


@given(st.integers(0, 6).flatmap(columns_of))
def test_in_bulk_is_the_same_as_one_by_one(columns: dict[str, Any]) -> None:
    rows = len(next(iter(columns.values())))
    expected = [encode({key: column[i] for key, column in columns.items()}) for i in range(rows)]
    assert encode_batch(columns) == expected


@given(st.lists(st.lists(INTS, max_size=5), min_size=1), st.data())
def test_ragged_rows_are_the_same_as_one_by_one(lists: list[list[int]], data: Any) -> None:
    offsets = np.cumsum([0, *map(len, lists)])
    ints = np.array([number for row in lists for number in row], np.int64)
    begin = data.draw(st.integers(0, len(lists) - 1))
    columns = {
        "ints": Ragged(ints, offsets)[begin:],
        "pairs": Ragged(np.stack([ints, ints], axis=1).astype(np.float32), offsets)[begin:],
    }
    expected = [
        encode({"ints": np.array(row, np.int64), "pairs": np.repeat(np.array(row, np.float32), 2)})
        for row in lists[begin:]
    ]
    assert encode_batch(columns) == expected


def test_strings_are_taken_as_lists_as_bytes_columns_and_in_ragged_rows() -> None:
    strings = [b"a", b"", b"ccc", b"dd"]
    expected = [encode({"s": string}) for string in strings]
    assert encode_batch({"s": strings}) == expected
    assert encode_batch({"s": np.array(strings, object)}) == expected
    assert encode_batch({"s": Bytes.of(strings)}) == expected
    assert encode_batch({"s": Bytes.of(strings, (2,))}) == [
        encode({"s": strings[:2]}),
        encode({"s": strings[2:]}),
    ]
    ragged = encode_batch({"s": Ragged(Bytes.of(strings), [0, 3, 3, 4])})
    assert [parsed(record)["s"] for record in ragged] == [
        ("bytes_list", strings[:3]),
        ("bytes_list", []),
        ("bytes_list", strings[3:]),
    ]


def test_none_leaves_the_column_out_and_empty_lists_have_no_kind() -> None:
    assert encode_batch({"x": [1, 2], "y": None}) == [encode({"x": 1}), encode({"x": 2})]
    assert encode_batch({"x": [[], []]}) == [encode({"x": []})] * 2


def test_encode_columns_gives_the_records_back_to_back_and_aligned() -> None:
    records, offsets = encode_columns({"x": np.arange(3), "y": ["a", "b", "c"]})
    joined = b"".join(encode_batch({"x": np.arange(3), "y": ["a", "b", "c"]}))
    assert records.tobytes() == joined
    assert offsets.dtype == np.uint64
    assert (offsets[0], offsets[-1]) == (0, len(joined))
    assert records.ctypes.data % 64 == 0


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({}, "no columns"),
        ({"x": None}, "no columns"),
        ({"x": [1], "y": [1, 2]}, "column 'y' has 2 rows, and 'x' has 1"),
        ({"x": 5}, "column 'x' is a int"),
        ({"x": b"abc"}, "column 'x' is a bytes"),
        ({"x": np.array(5)}, "column 'x' is a ndarray"),
        ({"x": [[1], [2, 3]]}, "feature 'x': .* different lengths"),
        ({"x": [1, "a"]}, "feature 'x': it mixes"),
        ({"x": Ragged(Ragged(np.arange(3), [0, 1, 3]), [0, 2])}, "column 'x': a Ragged of Ragged"),
        ({3: [1]}, "names are str"),
    ],
    ids=repr,
)
def test_columns_that_do_not_fit_are_refused_by_name(columns: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        encode_batch(columns)


# -- TensorProto

NUMERIC = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128", "bfloat16"),
    *("float8_e5m2", "float8_e4m3fn"),
]


def sample(name: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    numbers = np.random.default_rng(5).integers(0, 100, shape)
    if name.startswith("complex"):
        numbers = numbers + 1j * numbers[::-1] if shape else numbers
    return np.asarray(numbers - (0 if name[0] in "ub" else 50)).astype(tf.as_dtype(name).as_numpy_dtype)


def check_tensor(proto: bytes, expected: np.ndarray[Any, Any], name: str) -> None:
    tensor = _native.parse_tensor(proto)
    assert isinstance(tensor, tuple), tensor.what
    found, shape, memory = tensor
    assert isinstance(memory, np.ndarray)
    assert (found, shape) == (name, expected.shape)
    assert memory.tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", [name for name in NUMERIC if not name.startswith("float8")])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3, 4), (0, 2)])
def test_parse_tensor_reads_what_serialize_tensor_writes(name: str, shape: tuple[int, ...]) -> None:
    array = sample(name, shape)
    check_tensor(tf.io.serialize_tensor(array).numpy(), array, name)


@pytest.mark.parametrize("name", NUMERIC)
def test_parse_tensor_reads_the_field_of_each_dtype(name: str) -> None:
    array = sample(name, (2, 3))
    proto = tf.make_tensor_proto(array)
    typed = type(proto)(dtype=proto.dtype, tensor_shape=proto.tensor_shape)
    copy_to_typed_field(typed, array, name)
    np.testing.assert_array_equal(tf.make_ndarray(typed), array)
    check_tensor(typed.SerializeToString(), array, name)


def copy_to_typed_field(proto: Any, array: np.ndarray[Any, Any], name: str) -> None:
    flat = array.ravel()
    match name:
        case "float32" | "float64":
            (proto.float_val if name == "float32" else proto.double_val).extend(flat.tolist())
        case "complex64" | "complex128":
            parts = flat.view(np.float32 if name == "complex64" else np.float64).tolist()
            (proto.scomplex_val if name == "complex64" else proto.dcomplex_val).extend(parts)
        case "float16" | "bfloat16":
            proto.half_val.extend(flat.view(np.uint16).tolist())
        case "float8_e5m2" | "float8_e4m3fn":
            proto.float8_val = flat.tobytes()
        case "int64" | "uint64" | "uint32" | "bool":
            getattr(proto, f"{name}_val").extend(flat.tolist())
        case _:
            proto.int_val.extend(flat.tolist())


@pytest.mark.parametrize("name", NUMERIC)
def test_the_last_value_of_a_typed_field_repeats(name: str) -> None:
    value = sample(name, (1,))[0]
    proto = tf.make_tensor_proto(value, dtype=tf.as_dtype(name), shape=[2, 3])
    check_tensor(proto.SerializeToString(), np.broadcast_to(value, (2, 3)), name)


@pytest.mark.parametrize("strings", [[], ["a", b"", "ccc"], [["a", "b"], ["c", "d"]], b"scalar"])
def test_parse_tensor_reads_strings(strings: Any) -> None:
    array = tf.constant(strings, tf.string)
    tensor = _native.parse_tensor(tf.io.serialize_tensor(array).numpy())
    assert isinstance(tensor, tuple)
    assert tensor[:2] == ("string", tuple(array.shape))
    assert tensor[2] == array.numpy().ravel().tolist() if array.shape != () else [strings]


@given(st.binary(max_size=60))
def test_parse_tensor_survives_any_bytes(proto: bytes) -> None:
    result = _native.parse_tensor(proto)
    assert isinstance(result, tuple) or result.kind in ("corrupt", "schema")

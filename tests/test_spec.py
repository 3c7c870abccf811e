"""Structures are counted and rebuilt as tf.nest does it; values become leaves as TensorFlow makes tensors."""

import json
import pickle
import subprocess
import sys
from collections import OrderedDict, namedtuple

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from feedline.errors import UsageError
from feedline.spec import (
    STRING,
    ArraySpec,
    ObjectSpec,
    RaggedSpec,
    as_leaf,
    dtype_name,
    dtype_of,
    merge_specs,
    spec_of,
)
from feedline.structure import MAX_DEPTH, Structure, flatten

Point = namedtuple("Point", "x y")

scalars = st.integers(0, 9)
trees = st.recursive(
    scalars | st.none(),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=2), inner, max_size=3),
        st.dictionaries(st.integers(-3, 3), inner, max_size=3),
        st.tuples(inner, inner).map(lambda pair: Point(*pair)),
    ),
    max_leaves=8,
)


@given(trees)
def test_leaves_come_in_the_order_of_tf_nest(tree):
    # tf.nest takes None for a leaf, which is the one difference.
    assert flatten(tree)[0] == [leaf for leaf in tf.nest.flatten(tree) if leaf is not None]


@given(trees)
def test_a_flattened_tree_is_rebuilt_as_it_was(tree):
    leaves, structure = flatten(tree)
    again = structure.unflatten(leaves)
    assert again == tree
    assert repr(again) == repr(tree)  # the order of dicts and the classes of tuples too


@given(trees)
def test_a_structure_survives_json_and_pickle_with_its_hash(tree):
    structure = flatten(tree)[1]
    through_json = Structure.from_json(json.loads(json.dumps(structure.to_json())))
    for again in (through_json, pickle.loads(pickle.dumps(structure))):
        assert again == structure
        assert hash(again) == hash(structure)
        assert repr(again.unflatten(again.paths())) == repr(structure.unflatten(structure.paths()))


@given(trees, trees)
def test_leaves_of_agrees_with_flatten_and_refuses_other_structures(tree, other):
    leaves, structure = flatten(tree)
    assert structure.leaves_of(tree) == leaves
    if flatten(other)[1] == structure:
        assert structure.leaves_of(other) == flatten(other)[0]
    else:
        with pytest.raises(UsageError, match="another structure"):
            structure.leaves_of(other)


def test_lists_are_leaves():
    assert flatten(([1, 2], {"a": [3]}))[0] == [[1, 2], [3]]


def test_the_order_in_which_a_dict_was_filled_does_not_make_another_structure():
    one, other = flatten({"a": 1, "b": 2})[1], flatten({"b": 2, "a": 1})[1]
    assert one == other
    assert hash(one) == hash(other)
    assert list(other.unflatten([1, 2]).items()) == [("b", 2), ("a", 1)]


@pytest.mark.parametrize(
    "other", [(1, 2), Point(1, 2), {"x": 1, "y": 2}, {"x": 1, "z": 2}, (1, (2,)), (1, None, 2)]
)
def test_different_trees_have_different_structures(other):
    assert flatten(other)[1] != flatten({"x": 1})[1]
    assert flatten(other)[1] != flatten((1, None))[1]


def test_dict_subclasses_are_dicts():
    assert flatten(OrderedDict(b=1, a=2)) == flatten({"b": 1, "a": 2})


def test_a_namedtuple_that_is_not_loaded_is_made_anew_with_its_name_and_fields():
    made = Structure.from_json(["named", "elsewhere:Pair", ["first", "_1"], [["leaf"], ["leaf"]]]).unflatten(
        [1, 2]
    )
    assert (type(made).__name__, made._fields, made) == ("Pair", ("first", "_1"), (1, 2))
    assert "elsewhere" not in sys.modules


def test_a_namedtuple_with_a_new_of_its_own_is_rebuilt_without_calling_it():
    class Strict(Point):
        def __new__(cls, both):
            return super().__new__(cls, both, both)

    leaves, structure = flatten(Strict(3))
    assert structure.unflatten(leaves) == Strict(3)
    assert isinstance(structure.unflatten(leaves), Strict)


def test_paths_are_what_a_user_would_write():
    tree = {"image": (1, [2]), "at": Point(3, None)}
    assert flatten(tree)[1].paths() == ['element["at"].x', 'element["image"][0]', 'element["image"][1]']
    assert flatten({3: 1})[1].paths() == ["element[3]"]
    assert flatten(5)[1].paths() == ["element"]


def test_a_mismatch_names_the_place():
    structure = flatten({"a": 1, "b": (1, 2)})[1]
    with pytest.raises(UsageError, match=r'element\["b"\]\[1\]: this element has another structure'):
        structure.leaves_of({"a": 1, "b": (1, None)})


@pytest.mark.parametrize(
    "tree", [{1: 0, "a": 0}, {b"a": 0}, {(1,): 0}, {2**63: 0}, {True: 0}, {"a": {None: 0}}]
)
def test_keys_that_cannot_be_sorted_or_stored_are_refused(tree):
    with pytest.raises(UsageError, match="keys of a dict"):
        flatten(tree)


def test_very_deep_trees_are_refused_and_deep_ones_are_not():
    tree = 1
    for _ in range(MAX_DEPTH):
        tree = (tree,)
    assert flatten(tree)[0] == [1]
    with pytest.raises(UsageError, match="deep"):
        flatten((tree,))


@pytest.mark.parametrize(
    "value",
    [
        None,
        "leaf",
        ["other"],
        ["leaf", 1],
        ["tuple"],
        ["tuple", [["leaf"]], 1],
        ["dict", ["a"], []],
        ["dict", ["a", "a"], [["leaf"], ["leaf"]]],
        ["dict", ["a", 1], [["leaf"], ["leaf"]]],
        ["dict", [1.5], [["leaf"]]],
        ["named", "m:P", ["a"], []],
        ["named", "m:P", ["class"], [["leaf"]]],
        ["named", "m:P", ["a", "a"], [["leaf"], ["leaf"]]],
        ["named", "m:", ["a"], [["leaf"]]],
        ["named", "os:system", ["_x"], [["leaf"]]],
    ],
)
def test_json_that_is_no_structure_is_refused(value):
    with pytest.raises(UsageError):
        Structure.from_json(value)


def test_bottomless_json_is_refused():
    value = ["leaf"]
    for _ in range(5000):
        value = ["tuple", [value]]
    with pytest.raises(UsageError):
        Structure.from_json(value)


def test_unflatten_counts_the_leaves():
    with pytest.raises(UsageError, match="has 2 leaves, not 1"):
        flatten((1, 2))[1].unflatten([1])


@pytest.mark.parametrize(
    "value",
    [
        *[1, -(2**31), True, 0.5, float("inf"), float("nan"), 2j, "é", b"x", ""],
        *[[1, 2], [1.5, 2], [True, False], [], [[1], [2]], ["a", b"b"], [[]], [1, 2.5], range(3)],
        *[np.float64(1), [np.float64(1)], np.int8(3), np.array(3.0), np.bool_(True)],
        *[np.array(["ab", "c"]), np.array([b"ab", b"c"]), np.str_("ab"), np.bytes_(b"ab")],
        *[np.array([["ab", b"c"]], object), np.array("x"), np.arange(3, dtype=">i4"), np.zeros((2, 0))],
        *[np.arange(3).astype(ml_dtypes.bfloat16)],
    ],
    ids=repr,
)
def test_a_value_becomes_the_leaf_that_tensorflow_makes_of_it(value):
    tensor = tf.constant(list(value) if isinstance(value, range) else value)
    leaf = as_leaf(value)
    dtype = STRING if tensor.dtype == tf.string else np.dtype(tensor.dtype.as_numpy_dtype)
    assert spec_of(value) == ArraySpec(tuple(tensor.shape), dtype)
    assert type(leaf) in (np.ndarray, bytes) or isinstance(leaf, np.generic)
    np.testing.assert_array_equal(leaf, tensor.numpy())


def test_python_numbers_that_need_64_bits_get_them():
    assert as_leaf(2**31).dtype == np.int64
    assert as_leaf(1e300) == 1e300
    assert as_leaf([1e300, float("inf")]).dtype == np.float64
    assert as_leaf([0, -(2**40)]).dtype == np.int64


@pytest.mark.parametrize("value", [[1, 2**63], [[-1], [2**63]]], ids=str)
def test_integers_that_no_dtype_holds_together_are_refused_as_by_tensorflow(value):
    tf = pytest.importorskip("tensorflow", reason="TensorFlow, the oracle, is not installed")
    with pytest.raises(ValueError, match="convert"):
        tf.constant(value)
    with pytest.raises(UsageError, match="no dtype of integers holds all of this list"):
        as_leaf(value)


def test_zeros_at_the_end_of_strings_are_kept():
    assert as_leaf(["a\0", b"\0"]).tolist() == [b"a\0", b"\0"]
    assert as_leaf([["a\0"], ["b"]]).tolist() == [[b"a\0"], [b"b"]]


def test_numpy_numbers_in_a_list_keep_their_width_where_tensorflow_narrows_some():
    assert tf.constant([np.int64(1)]).dtype == tf.int32
    assert as_leaf([np.int64(1)]).dtype == np.int64
    assert as_leaf([np.arange(2), np.arange(2)]).dtype == np.int64


def test_tensors_and_buffers_become_arrays():
    assert spec_of(tf.constant([1.5])) == ArraySpec((1,), np.dtype("float32"))
    assert spec_of(bytearray(b"abc")) == ArraySpec((3,), np.dtype("uint8"))


def test_arrays_are_passed_on_as_they_are():
    array = np.zeros((3, 4), "float32")[:, ::2]
    assert as_leaf(array) is array


class Opaque:
    def __len__(self):
        raise AssertionError("nobody may look inside")

    __getitem__ = __iter__ = __len__


def test_an_object_that_is_no_array_stays_what_it_is():
    opaque = Opaque()
    assert as_leaf(opaque) is opaque
    assert spec_of((opaque,)) == (ObjectSpec(),)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (np.datetime64("2024-01-01"), "dates"),
        (np.zeros(2, "m8[s]"), "dates"),
        (np.zeros(2, [("a", "i4")]), "structured"),
        (np.zeros(2, np.longdouble), "use one of"),
        (np.array([1, "a"], object), "bytes or str only, not int"),
        ([[1], [2, 3]], "different lengths"),
        ("\ud800", "UTF-8"),
        (np.array(["\ud800"], object), "UTF-8"),
    ],
    ids=repr,
)
def test_what_has_no_dtype_is_refused_by_name(value, reason):
    with pytest.raises(UsageError, match=rf'^element\["k"\]\[1\]: .*{reason}'):
        spec_of({"k": (0, value)})


@pytest.mark.parametrize(
    "name", ["bool", "uint64", "float16", "complex128", "string", "bfloat16", "float8_e5m2", "int4"]
)
def test_dtypes_are_named_as_tensorflow_names_them(name):
    dtype = dtype_of(name)
    assert dtype_name(dtype) == name
    assert tf.as_dtype(name) == (tf.string if name == "string" else tf.as_dtype(dtype.type))


@pytest.mark.parametrize(
    "name", ["object", "O", "V8", "float128", "datetime64[s]", "U5", ">f4", "i4,i4", "", "f4"]
)
def test_names_that_are_not_on_the_list_are_refused(name):
    with pytest.raises(UsageError, match="use one of"):
        dtype_of(name)


def test_ml_dtypes_is_not_imported_before_it_is_named():
    code = (
        "import sys, numpy as np, feedline.spec as s; s.spec_of({'x': np.zeros(3), 'y': 'a'});"
        "assert 'ml_dtypes' not in sys.modules; s.dtype_of('bfloat16'); assert 'ml_dtypes' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


f32, i64 = np.dtype("float32"), np.dtype("int64")


@pytest.mark.parametrize(
    ("one", "other", "merged"),
    [
        (ArraySpec((2,), f32), ArraySpec((2,), f32), ArraySpec((2,), f32)),
        (ArraySpec((2, 1), f32), ArraySpec((3, 1), f32), ArraySpec((None, 1), f32)),
        (ArraySpec((2,), f32), ArraySpec((), f32), ArraySpec(None, f32)),
        (ArraySpec((2,), f32), ArraySpec((2,), i64), ObjectSpec()),
        (RaggedSpec((2, None), f32), RaggedSpec((3, None), f32), RaggedSpec((None, None), f32)),
        (RaggedSpec((2, None), f32), ArraySpec((2, None), f32), ObjectSpec()),
    ],
)
def test_specs_merge_to_the_narrowest_that_both_fit(one, other, merged):
    assert merge_specs(one, other) == merged
    assert merge_specs(other, one) == merged
    assert merge_specs(merged, one) == merged


def test_specs_read_well():
    assert repr(ArraySpec((None, 3), STRING)) == "ArraySpec((None, 3), string)"
    assert repr(RaggedSpec((4, None), f32)) == "RaggedSpec((4, None), float32, ragged_rank=1)"

"""from_tensor_slices and from_tensors."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from feedline import Dataset, Ragged, UsageError
from feedline.testing import check_laws
from tests.ops.sources import RAGGED, Point, every_source
from tests.tfdata import both, both_refuse, compare, tensorflow

TREES = {
    "a list": [1, 2, 3],
    "a list of lists": [[1, 2], [3, 4]],
    "a tuple of lists": ([1, 2], [3, 4], [5, 6]),
    "a dict": {"a": [1, 2], "b": [3, 4]},
    "pairs of features and labels": ([[1, 3], [2, 3], [2, 1]], ["A", "B", "A"]),
    "a dict and labels": ({"a": [1.5, 2], "b": [[1], [2]]}, [True, False]),
    "dicts filled in another order": {"b": {"z": [1, 2], "y": [3, 4]}, "a": [5, 6]},
    "a namedtuple": Point(np.arange(3), (["x", "yy", ""], None)),
    "None and ()": (np.arange(3), None, (), {"a": None}),
    "numbers with keys": {3: np.arange(2), 1: np.arange(2)},
    "rows of nothing": np.zeros((3, 0)),
    "nothing": np.zeros((0, 3), np.int16),
    "strings": [b"\0a\0", "é", b""],
    "arrays of strings": np.array([["a", "b"], ["", "longer"]]),
    "NumPy's bytes": np.array([b"ab", b"c"]),
    "complex": [1 + 2j, 3j],
    "a range": range(4),
}
DTYPES = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
    *(ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.int4, ml_dtypes.uint4),
]


@pytest.mark.parametrize("tree", TREES.values(), ids=TREES.keys())
def test_slices_are_those_of_tf_data(tree):
    both(lambda D: D.from_tensor_slices(tree))
    both(lambda D: D.from_tensors(tree))


@pytest.mark.parametrize("tree", [5, 2.5, "text", b"bytes", True, {"a": 1, "b": (2, None, "c")}])
def test_a_whole_is_that_of_tf_data(tree):
    both(lambda D: D.from_tensors(tree))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_stays_what_it_is(dtype):
    values = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype)
    [first, second] = both(lambda D: D.from_tensor_slices(values))
    assert first.dtype == second.dtype == values.dtype
    assert next(iter(Dataset.from_tensor_slices(values[0]))).dtype == values.dtype


def test_arrays_may_lie_in_memory_in_any_way():
    cube = np.arange(24).reshape(2, 3, 4)
    for array in (
        cube.T,
        cube[:, ::-1],
        cube[::-1, :, ::2],
        np.asfortranarray(cube),
        np.broadcast_to(7, (4, 2)),
    ):
        both(lambda D, array=array: D.from_tensor_slices(array).batch(2))
    assert next(iter(Dataset.from_tensor_slices(np.arange(3, dtype=">i4")))).dtype == np.int32


def test_ragged_rows_are_batched_into_ragged_as_in_tf_data():
    tf = tensorflow()
    theirs = tf.RaggedTensor.from_row_splits(RAGGED.values, RAGGED.offsets)
    elements = compare(Dataset.from_tensor_slices(RAGGED), tf.data.Dataset.from_tensor_slices(theirs))
    assert [element.tolist() for element in elements] == RAGGED.to_list()
    for steps in (
        lambda ds: ds.batch(2),
        lambda ds: ds.batch(3, drop_remainder=True),
        lambda ds: ds.filter(lambda x: True).batch(2),
        lambda ds: ds.shard(2, 0).repeat(2).batch(3).batch(2),
        lambda ds: ds.interleave(lambda x: type(ds).from_tensors(x), cycle_length=2),
    ):
        compare(steps(Dataset.from_tensor_slices(RAGGED)), steps(tf.data.Dataset.from_tensor_slices(theirs)))
    compare(Dataset.from_tensors(RAGGED), tf.data.Dataset.from_tensors(theirs))


@every_source
def test_sources_obey_the_laws(source):
    check_laws(lambda ds: ds, source)


def test_functions_cannot_change_what_the_next_epoch_reads():
    def in_place(x):
        x += 1
        return x

    own = np.zeros((2, 3))
    for dataset in (Dataset.from_tensor_slices(own), Dataset.from_tensors(own)):
        with pytest.raises(ValueError, match="read-only"):
            list(dataset.map(in_place))
    assert not own.any()


def test_large_arrays_are_not_copied():
    own = np.zeros((1000, 10))
    assert np.shares_memory(next(iter(Dataset.from_tensor_slices(own))), own)
    assert np.shares_memory(next(iter(Dataset.from_tensor_slices(own).batch(10))), own)


# tf.data's list of slices from several arrays must agree in the first dimension, too.
@pytest.mark.parametrize(
    "tree", [([1, 2], [1, 2, 3]), 5, ([1, 2], 5), "text", [[1, 2], [3]], [1, "a"], [None, 1]]
)
def test_slices_refuse_what_tf_data_refuses(tree):
    both_refuse(lambda D: D.from_tensor_slices(tree))


@pytest.mark.parametrize("tree", [None, (), {}, (None, {"a": ()})])
def test_an_element_holds_one_array_at_least_as_in_tf_data(tree):
    both_refuse(lambda D: D.from_tensors(tree))
    both_refuse(lambda D: D.from_tensor_slices(tree))
    both_refuse(lambda D: list(D.range(3).map(lambda x: tree)))


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        (
            {"a": [1, 2], "b": ([1], [1, 2, 3])},
            'from_tensor_slices: tensors["b"][0] has 1 rows, and tensors["a"] has 2.\n'
            "  All must have the same first dimension.",
        ),
        (
            (np.zeros(3), 5),
            "from_tensor_slices: tensors[1] must be an array with one dimension at least, or a Ragged, not a "
            "scalar int32.\n  Its first dimension counts the rows.",
        ),
        ((), "from_tensor_slices: there is no array in what was given."),
        (
            {"when": np.array(["2026-01-01"], "datetime64[D]")},
            "tensors[\"when\"]: dtype dtype('<M8[D]'): dates have no dtype in TensorFlow; "
            "pass x.astype('int64') and its unit apart.",
        ),
    ],
)
def test_slices_say_what_is_wrong(tree, text):
    with pytest.raises(UsageError) as caught:
        Dataset.from_tensor_slices(tree)
    assert str(caught.value) == text


def test_a_ragged_of_objects_is_refused_early():
    with pytest.raises(UsageError, match="Ragged"):
        Dataset.from_tensor_slices([[1, 2], [3]])
    assert [x.tolist() for x in Dataset.from_tensor_slices(Ragged([1, 2, 3], [0, 2, 3]))] == [[1, 2], [3]]

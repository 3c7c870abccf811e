"""unique: each element once."""

from __future__ import annotations

import numpy as np
import pytest

from feedline import Dataset, Ragged, UsageError
from feedline.testing import Failed, check_errors, check_laws
from tests.ops import oracle
from tests.ops.oracle import tf


@pytest.mark.parametrize(
    "values",
    [
        [1, 37, 2, 37, 2, 1],
        np.array([5, -5, 5, 2**40, 0, 2**40]),
        ["a", "b", "a", "", "c", "", "b"],
        [[1, 2], [2, 1], [1, 2]],
        [["ab", "c"], ["a", "bc"], ["ab", "c"], ["abc", ""]],
        ["long " * 30, "long " * 31, "long " * 30],
        [[0] * 40, [0] * 39 + [1], [0] * 40],
    ],
    ids=repr,
)
def test_what_comes_first_is_kept_as_in_tf_data(values):
    ours, theirs = (ds.from_tensor_slices(values).unique() for ds in (Dataset, tf.data.Dataset))
    oracle.assert_same_elements(ours, theirs)


def test_arrays_of_different_shapes_differ_as_in_tf_data():
    oracle.assert_same_elements(
        Dataset.from_tensor_slices([1, 2, 1, 0]).map(lambda n: np.zeros(n, "int64")).unique(),
        tf.data.Dataset.from_tensor_slices([1, 2, 1, 0]).map(lambda n: tf.zeros([n], tf.int64)).unique(),
    )


def test_a_leaf_inside_of_a_structure_is_taken_as_in_tf_data():
    ours, theirs = (ds.from_tensor_slices({"x": [1, 1, 2]}).unique() for ds in (Dataset, tf.data.Dataset))
    oracle.assert_same_elements(ours, theirs)


def test_cardinality_is_unknown():
    for count in (None, 2, 0):
        ours, theirs = (ds.range(3).repeat(count).unique() for ds in (Dataset, tf.data.Dataset))
        assert ours.cardinality() == int(theirs.cardinality())


@pytest.mark.parametrize(
    "values",
    [[0.5, 0.5], np.zeros(2, "int8"), np.zeros(2, "uint64"), [True, True], ([1, 1], [2, 2]), {"a": [1.0]}],
    ids=repr,
)
def test_what_tf_data_refuses_is_refused(values):
    with pytest.raises((TypeError, tf.errors.InvalidArgumentError)):
        tf.data.Dataset.from_tensor_slices(values).unique()
    with pytest.raises(UsageError, match="int32, int64 or string"):
        Dataset.from_tensor_slices(values).unique()


def test_what_only_elements_can_tell_is_refused_when_they_come():
    with pytest.raises(UsageError, match="int32, int64 or string"):
        list(Dataset.range(3).map(lambda x: float(x)).unique())
    with pytest.raises(UsageError, match="int32, int64 or string"):
        list(Dataset.range(3).map(lambda x: (x, None)).unique())
    with pytest.raises(UsageError, match="int32, int64 or string"):
        Dataset.from_tensor_slices(Ragged(Ragged([1, 2], [0, 1, 2]), [0, 2])).unique()


def test_elements_that_fail_are_passed_as_in_tf_data():
    ours = check_errors(lambda ds: ds.map(lambda x: x // 3).unique(), Dataset.range(20))
    oracle.assert_same_events(ours, oracle.failing_range(20).map(lambda x: x // 3).unique())

    def fail(x):
        if x % 4 == 1:
            raise Failed(f"{x}")
        return x % 5

    check_errors(lambda ds: ds.map(fail).unique(), Dataset.range(20))


def test_it_obeys_the_laws():
    check_laws(lambda ds: ds.map(lambda x: x * x % 17).unique(), Dataset.range(40))
    check_laws(lambda ds: ds.map(lambda x: str(x % 7)).unique(), Dataset.range(20))
    check_laws(lambda ds: ds.repeat(3).unique(), Dataset.range(9))
    check_laws(lambda ds: ds.repeat(3).shuffle(5, seed=1).unique(), Dataset.range(9))

"""group_by_window: which elements are gathered, in which order groups come, and what a state must hold."""

from __future__ import annotations

import numpy as np
import pytest

from feedline import Dataset, UsageError
from feedline.spec import ArraySpec
from feedline.testing import Failed, check_errors, check_laws
from tests.ops import oracle
from tests.ops.oracle import tf


def both(step):
    return (step(ds) for ds in (Dataset, tf.data.Dataset))


def test_full_groups_come_first_and_the_rest_by_key_as_in_tf_data():
    ours, theirs = both(
        lambda ds: ds.range(10).group_by_window(
            key_func=lambda x: x % 2, reduce_func=lambda key, group: group.batch(5), window_size=5
        )
    )
    oracle.assert_same_elements(ours, theirs)
    numbers = np.array([3, -7, 3, 12, 5, -7, 0, 5, 12, 12, 12, 3], "int64")
    ours, theirs = both(
        lambda ds: ds.from_tensor_slices(numbers).group_by_window(
            lambda x: x, lambda key, group: group.map(lambda x: (key, x)), window_size=2
        )
    )
    oracle.assert_same_elements(ours, theirs)


def test_each_key_may_have_its_own_size():
    ours, theirs = both(
        lambda ds: ds.range(40).group_by_window(
            lambda x: x % 3, lambda key, group: group.batch(100), window_size_func=lambda key: key * 2 + 1
        )
    )
    oracle.assert_same_elements(ours, theirs)


def test_tuples_are_the_arguments_of_key_func_and_the_elements_of_the_group():
    numbers, names = np.arange(7), np.array(["a", "b", "c", "d", "e", "f", "g"])
    ours, theirs = both(
        lambda ds: ds.from_tensor_slices((numbers, names)).group_by_window(
            lambda number, name: number % 2, lambda key, group: group.batch(2), window_size=3
        )
    )
    oracle.assert_same_elements(ours, theirs)


def test_a_reduced_group_may_have_any_number_of_elements():
    ours, theirs = both(
        lambda ds: ds.range(20).group_by_window(
            lambda x: x % 3, lambda key, group: group.take(key).repeat(2), window_size=4
        )
    )
    oracle.assert_same_elements(ours, theirs)


def test_an_empty_input_gives_nothing():
    ours, theirs = both(
        lambda ds: ds.range(0).group_by_window(lambda x: x, lambda key, group: group, window_size=2)
    )
    oracle.assert_same_elements(ours, theirs)


def test_cardinality_is_unknown_unless_the_input_is_infinite():
    for count in (None, 2, 0):
        ours, theirs = both(
            lambda ds, count=count: ds.range(3).repeat(count).group_by_window(lambda x: x, lambda k, g: g, 2)
        )
        assert ours.cardinality() == int(theirs.cardinality())


def test_the_spec_of_a_batched_group_leaves_its_length_open_as_in_tf_data():
    ours, theirs = both(lambda ds: ds.range(9).group_by_window(lambda x: x % 2, lambda k, g: g.batch(2), 2))
    assert theirs.element_spec == tf.TensorSpec((None,), tf.int64)
    assert ours.element_spec == ArraySpec((None,), np.dtype("int64"))


def test_keys_are_passed_as_int64():
    seen = []

    def reduce(key, group):
        seen.append(key)
        return group

    list(Dataset.range(2).group_by_window(lambda x: int(x) % 2, reduce, 1))
    assert [(key, key.dtype) for key in seen] == [(0, np.int64), (1, np.int64)]


def test_sizes_must_be_given_in_one_way():
    for arguments in ({}, {"window_size": 2, "window_size_func": lambda key: 2}):
        for ds in (Dataset, tf.data.Dataset):
            with pytest.raises(ValueError, match="window_size"):
                ds.range(3).group_by_window(lambda x: x, lambda key, group: group, **arguments)


def test_a_size_must_be_one_at_least():
    with pytest.raises(UsageError, match="1 element at least"):
        Dataset.range(3).group_by_window(lambda x: x, lambda key, group: group, window_size=0)
    by_key = {"window_size_func": lambda key: key - 1}
    with pytest.raises(tf.errors.InvalidArgumentError, match="greater than zero"):
        list(tf.data.Dataset.range(3).group_by_window(lambda x: x, lambda key, group: group, **by_key))
    with pytest.raises(UsageError, match="window_size_func"):
        list(Dataset.range(3).group_by_window(lambda x: x, lambda key, group: group, **by_key))


@pytest.mark.parametrize("key", [0.5, True, "a", None, np.zeros(2, int), np.float32(1), 2**63])
def test_a_key_must_be_one_integer(key):
    with pytest.raises(UsageError, match="key_func must return an integer"):
        list(Dataset.range(3).group_by_window(lambda x: key, lambda key, group: group, 2))


@pytest.mark.parametrize("dtype", ["int32", "uint8", "uint64"])
def test_a_key_of_another_dtype_than_int64_is_refused_as_in_tf_data(dtype):
    numbers = np.arange(6, dtype=dtype)
    with pytest.raises(ValueError, match="int64"):
        tf.data.Dataset.from_tensor_slices(numbers).group_by_window(lambda x: x, lambda key, group: group, 2)
    with pytest.raises(UsageError, match=f"must return an int64, not {dtype}"):
        list(Dataset.from_tensor_slices(numbers).group_by_window(lambda x: x, lambda key, group: group, 2))


def test_a_group_must_be_reduced_to_a_dataset():
    with pytest.raises(TypeError):
        tf.data.Dataset.range(3).group_by_window(lambda x: x, lambda key, group: key, 2)
    with pytest.raises(UsageError, match="must return a feedline Dataset, not int64"):
        list(Dataset.range(3).group_by_window(lambda x: x, lambda key, group: key, 2))


def test_groups_must_give_elements_of_one_kind():
    def reduce(key, group):
        return group.map(float) if key == 1 else group

    rows = iter(Dataset.range(12).group_by_window(lambda x: x % 3, reduce, 2))
    assert [int(next(rows)), int(next(rows))] == [0, 3]
    with pytest.raises(UsageError, match="float32 here, and was int64"):
        next(rows)
    assert [int(next(rows)) for _ in range(4)] == [2, 5, 6, 9]


def test_elements_that_fail_are_in_no_group_as_in_tf_data():
    def step(ds):
        return ds.group_by_window(lambda x: x % 2, lambda key, group: group.batch(3), window_size=3)

    ours = check_errors(step, Dataset.range(16))
    oracle.assert_same_events(ours, step(oracle.failing_range(16)))


def test_elements_whose_key_fails_are_in_no_group_as_in_tf_data():
    bad = (2, 5, 6, 15)

    def key(x):
        if x in bad:
            raise Failed(f"key of {x}")
        return x % 2

    def reduce(key, group):
        return group.batch(3)

    ours = check_errors(lambda ds: ds.group_by_window(key, reduce, 3), Dataset.range(16))
    theirs = oracle.failing_range(16).group_by_window(lambda x: oracle.fail_at(bad)(x) % 2, reduce, 3)
    oracle.assert_same_events(ours, theirs)


def test_elements_that_fail_within_a_group_are_left_out_as_in_tf_data():
    def fail(x):
        if x % 5 == 2:
            raise Failed(f"{x}")
        return x

    ours = check_errors(
        lambda ds: ds.group_by_window(lambda x: x % 2, lambda key, group: group.map(fail), 3),
        Dataset.range(16),
    )
    check = oracle.fail_at((2, 7, 12))
    theirs = oracle.failing_range(16).group_by_window(lambda x: x % 2, lambda key, group: group.map(check), 3)
    oracle.assert_same_events(ours, theirs)


def test_a_group_whose_reduction_fails_is_dropped():
    def reduce(key, group):
        if key == 1:
            raise Failed("odd")
        return group.batch(2)

    found = check_errors(lambda ds: ds.group_by_window(lambda x: x % 2, reduce, 2), Dataset.range(16))
    assert [event[1] for event in found if event[0] == "failed"].count("odd") == 3


def test_an_error_says_where_it_comes_from():
    with pytest.raises(ZeroDivisionError) as caught:
        list(Dataset.range(5).group_by_window(lambda x: 1 // (2 - int(x)), lambda key, group: group, 2))
    assert "group_by_window, added at" in caught.value.__notes__[0]
    assert "element 2" in caught.value.__notes__[0]


def test_it_obeys_the_laws():
    def step(ds):
        return ds.group_by_window(lambda x: x % 3, lambda key, group: group.batch(2), window_size=4)

    check_laws(step, Dataset.range(31))
    check_laws(lambda ds: step(ds.filter(lambda x: x % 7 != 3)), Dataset.range(40))
    check_laws(lambda ds: step(ds.shuffle(10, seed=3)), Dataset.range(31))
    check_laws(lambda ds: step(ds).repeat(2), Dataset.range(10))


def test_a_rare_key_costs_neither_memory_nor_state():
    def key(x):
        return 7 if x == 0 else 0

    dataset = Dataset.range(200_000).batch(100).group_by_window(lambda x: key(x[0]), lambda k, g: g, 2)
    rows = iter(dataset)
    for _ in range(1500):
        next(rows)
    assert len(str(rows.state_dict())) < 500
    resumed = iter(dataset)
    resumed.load_state_dict(rows.state_dict())
    assert next(resumed).tolist() == next(rows).tolist()

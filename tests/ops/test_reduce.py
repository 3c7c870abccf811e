"""reduce: the last state after all elements."""

from __future__ import annotations

import numpy as np
import pytest

from feedline import Dataset, UsageError
from feedline.testing import assert_same
from tests.ops.oracle import tf


@pytest.mark.parametrize(
    ("first", "function"),
    [
        (np.int64(0), lambda state, _: state + 1),
        (np.int64(0), lambda state, x: state + x),
        ((np.int64(3), np.zeros(2)), lambda state, x: (state[0] * 2, state[1] + 1.0)),
        ({"a": 0, "b": 1.5}, lambda state, x: state),
        (b"text", lambda state, x: state),
        ((np.int64(0), np.int64(1)), lambda state, x: [state[0] + x, state[1] * 2]),  # a list is a tuple
    ],
)
@pytest.mark.parametrize("count", [0, 5])
def test_it_gives_what_tf_data_gives(first, function, count):
    theirs = tf.data.Dataset.range(count).reduce(first, function)
    theirs = tf.nest.map_structure(lambda tensor: tensor.numpy(), theirs)
    assert_same([Dataset.range(count).reduce(first, function)], [theirs])


def test_a_list_is_not_an_array_where_the_state_is_one_as_in_tf_data():
    def function(state, x):
        return [state[0] + x, state[1]]

    with pytest.raises(UsageError, match="the new state is not like initial_state"):
        Dataset.range(3).reduce(np.zeros(2, np.int64), function)
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.data.Dataset.range(3).reduce(np.zeros(2, np.int64), function)


def test_a_tuple_is_one_argument():
    dataset = Dataset.from_tensor_slices(([1, 2], [3, 4]))
    assert dataset.reduce(0, lambda state, pair: state + pair[0] * pair[1]) == 11


def test_the_result_may_be_changed():
    first = np.zeros(2)
    result = Dataset.range(3).reduce(first, lambda state, x: state + x)
    result += 1
    assert result.tolist() == [4, 4]
    unchanged = Dataset.range(0).reduce(first, lambda state, x: state)
    unchanged += 1
    assert first.tolist() == [0, 0]


def test_another_state_than_the_first_is_refused():
    for ds, refused in ((Dataset, UsageError), (tf.data.Dataset, (TypeError, ValueError))):
        with pytest.raises(refused):
            ds.range(3).reduce(0, lambda state, x: state + x)
        with pytest.raises(refused):
            ds.range(3).reduce(0, lambda state, x: 0.5)


def test_an_error_says_where_it_comes_from_and_closes_the_iterator():
    with pytest.raises(ZeroDivisionError) as caught:
        Dataset.range(5).prefetch(2).reduce(0, lambda state, x: 1 // (2 - int(x)))
    assert "reduce, added at" in caught.value.__notes__[0]
    assert "element 2" in caught.value.__notes__[0]


def test_each_call_is_an_iteration_of_its_own():
    dataset = Dataset.range(100).shuffle(100, seed=1)
    first, second = (dataset.reduce(np.int64(0), lambda state, x: (state * 3 + x) % 1009) for _ in range(2))
    assert first != second

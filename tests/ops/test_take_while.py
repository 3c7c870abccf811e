"""take_while: up to the first False."""

from __future__ import annotations

import numpy as np
import pytest

from feedline import Dataset, UsageError
from feedline.testing import Failed, check_errors, check_laws
from tests.ops import oracle
from tests.ops.oracle import tf


@pytest.mark.parametrize("border", [0, 1, 5, 100])
def test_it_ends_before_the_first_false_as_in_tf_data(border):
    ours, theirs = (ds.range(10).take_while(lambda x: x < border) for ds in (Dataset, tf.data.Dataset))
    oracle.assert_same_elements(ours, theirs)


def test_what_follows_the_first_false_is_never_given():
    elements = iter(Dataset.range(10).take_while(lambda x: x % 3 < 2))
    assert [int(x) for x in elements] == [0, 1]
    assert next(elements, None) is None


def test_tuples_are_arguments():
    pair = np.arange(5), np.arange(5)
    ours, theirs = (
        ds.from_tensor_slices(pair).take_while(lambda x, y: x + y < 5) for ds in (Dataset, tf.data.Dataset)
    )
    oracle.assert_same_elements(ours, theirs)


def test_cardinality_is_unknown():
    for count in (None, 2, 0):
        ours, theirs = (
            ds.range(3).repeat(count).take_while(lambda x: x < 2) for ds in (Dataset, tf.data.Dataset)
        )
        assert ours.cardinality() == int(theirs.cardinality())
    assert [int(x) for x in Dataset.range(3).repeat().take_while(lambda x: x < 2)] == [0, 1]


@pytest.mark.parametrize("answer", [1, None, np.array([True]), "yes"])
def test_a_predicate_must_say_true_or_false(answer):
    with pytest.raises(UsageError, match="True or False"):
        list(Dataset.range(3).take_while(lambda x: answer))
    with pytest.raises((ValueError, TypeError)):
        tf.data.Dataset.range(3).take_while(lambda x: 1 if answer is None else answer)


def test_elements_that_fail_are_passed_as_in_tf_data():
    bad = (2, 7)

    def predicate(x):
        if x in bad:
            raise Failed(f"{x}")
        return x < 11

    ours = check_errors(lambda ds: ds.take_while(predicate), Dataset.range(14))
    check = oracle.fail_at(bad)
    oracle.assert_same_events(ours, oracle.failing_range(14).take_while(lambda x: check(x) < 11))


def test_an_error_says_where_it_comes_from():
    with pytest.raises(ZeroDivisionError) as caught:
        list(Dataset.range(5).take_while(lambda x: 1 // (3 - int(x)) < 5))
    assert "take_while, added at" in caught.value.__notes__[0]
    assert "element 3" in caught.value.__notes__[0]


def test_it_obeys_the_laws():
    check_laws(lambda ds: ds.take_while(lambda x: x < 13), Dataset.range(20))
    check_laws(lambda ds: ds.take_while(lambda x: True), Dataset.range(9))
    check_laws(lambda ds: ds.take_while(lambda x: x < 5).repeat(3), Dataset.range(9))

"""get_single_element: the only element, or an error."""

from __future__ import annotations

import pytest

from feedline import Dataset, UsageError
from feedline.testing import assert_same
from tests.ops.oracle import tf


def test_it_gives_what_tf_data_gives():
    tree = {"x": [1, 2], "y": ("a", [[0.5]])}
    theirs = tf.nest.map_structure(
        lambda tensor: tensor.numpy(), tf.data.Dataset.from_tensors(tree).get_single_element()
    )
    assert_same([Dataset.from_tensors(tree).get_single_element()], [theirs])


@pytest.mark.parametrize(("count", "found"), [(0, "no element"), (2, "more than one element")])
def test_there_must_be_exactly_one(count, found):
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.data.Dataset.range(count).get_single_element()
    with pytest.raises(UsageError, match=found):
        Dataset.range(count).get_single_element()


def test_no_more_than_two_elements_are_asked_for():
    asked = []
    dataset = Dataset.range(10_000).map(lambda x: asked.append(x) or x)
    with pytest.raises(UsageError):
        dataset.get_single_element()
    assert len(asked) == 2

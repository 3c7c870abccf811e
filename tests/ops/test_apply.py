"""apply: a function of a dataset as a step."""

from __future__ import annotations

import pytest

from feedline import Dataset, UsageError
from tests.ops import oracle
from tests.ops.oracle import tf


def test_it_is_the_function_of_the_dataset_as_in_tf_datas_documentation():
    ours, theirs = (
        ds.range(100).apply(lambda one: one.filter(lambda x: x < 5)) for ds in (Dataset, tf.data.Dataset)
    )
    oracle.assert_same_elements(ours, theirs)


def test_the_function_must_return_a_dataset():
    with pytest.raises(TypeError):
        tf.data.Dataset.range(3).apply(lambda one: 5)
    with pytest.raises(UsageError, match="must return a Dataset, not int"):
        Dataset.range(3).apply(lambda one: 5)

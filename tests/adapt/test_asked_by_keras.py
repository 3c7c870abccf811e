"""A Dataset has no `__array__`, whoever asks but Keras. What Keras hears is tested in on_each_backend.py."""

import numpy as np
import pytest

import feedline as fl


def test_a_dataset_has_no_array():
    dataset = fl.Dataset.range(3)
    assert not hasattr(dataset, "__array__")
    assert not hasattr(fl.Dataset, "__array__")
    with pytest.raises(AttributeError, match="'Dataset' object has no attribute '__array__'"):
        _ = dataset.__array__


def test_numpy_still_takes_a_dataset_for_a_sequence():
    np.testing.assert_array_equal(np.asarray(fl.Dataset.range(3)), [0, 1, 2])

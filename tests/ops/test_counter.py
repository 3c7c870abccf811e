"""counter: numbers without an end."""

from __future__ import annotations

import numpy as np
import pytest

from feedline import Dataset
from feedline.testing import check_laws
from tests.tfdata import both, both_refuse


@pytest.mark.parametrize("args", [(), (2,), (2, 5), (10, -1), (-3, 0), (np.int32(4), np.int64(2))])
def test_numbers_are_those_of_tf_data(args):
    both(lambda D: D.counter(*args), most=30)


def test_numbers_wrap_around_where_int64_ends_as_in_tf_data():
    both(lambda D: D.counter(2**63 - 3).take(5))
    both(lambda D: D.counter(0, 2**62).take(9))


def test_counter_obeys_the_laws():
    check_laws(lambda ds: Dataset.counter(7, -3), Dataset.range(0))
    check_laws(lambda ds: Dataset.counter().batch(4).take(5), Dataset.range(0))


@pytest.mark.parametrize("args", [(1.5,), ("1",), (2**63,), (0, -(2**63) - 1), (None,)])
def test_what_is_no_int64_is_refused(args):
    both_refuse(lambda D: D.counter(*args))


def test_it_has_no_length():
    with pytest.raises(TypeError, match="infinite"):
        len(Dataset.counter())

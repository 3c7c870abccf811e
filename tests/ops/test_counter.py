"""counter: numbers without an end."""

from __future__ import annotations

import numpy as np
import pytest

from feedline import Dataset
from feedline.testing import check_laws
from tests.tfdata import both, both_refuse, tensorflow


@pytest.mark.parametrize("args", [(), (2,), (2, 5), (10, -1), (-3, 0), (np.int32(4), np.int64(2))])
def test_numbers_are_those_of_tf_data(args):
    both(lambda D: D.counter(*args), most=30)


def test_numbers_wrap_around_where_int64_ends_as_in_tf_data():
    both(lambda D: D.counter(2**63 - 3).take(5))
    both(lambda D: D.counter(0, 2**62).take(9))


@pytest.mark.parametrize(
    "args",
    [
        (0, 1, "int32"),  # tf.data's own example
        *[(250, 2, "uint8"), (3, -2, "int8"), (2**31 - 2, 1, "int32"), (2**64 - 2, 1, "uint64")],
        *[(256, 1, "uint8"), (0, -1, "uint8"), (2**40 + 5, 1, "int32")],
        *[(0, 1, "float32"), (0.5, 0.25, "float64"), (0.1, 0.1, "float32"), (2**11 - 2, 1, "float16")],
    ],
)
def test_numbers_of_other_dtypes_are_those_of_tf_data(args):
    start, step, dtype = args
    both(lambda D: D.counter(start, step, dtype if D is Dataset else tensorflow().as_dtype(dtype)), most=30)


def test_a_dtype_may_be_tensorflows_or_numpys():
    for dtype in (tensorflow().int32, np.int32, np.dtype(">i4"), "int32"):
        assert next(iter(Dataset.counter(dtype=dtype))).dtype == np.dtype("int32")


@pytest.mark.parametrize("args", [(0, 1, "uint8"), (0.1, 0.1, "float32"), (1, -3, "float64")])
def test_counters_of_other_dtypes_obey_the_laws(args):
    check_laws(lambda ds: Dataset.counter(*args), Dataset.range(0))


@pytest.mark.parametrize("args", [(0.5, 1, "int32"), (0, 1, "string")])
def test_what_the_dtype_cannot_hold_is_refused(args):
    start, step, dtype = args
    both_refuse(lambda D: D.counter(start, step, dtype if D is Dataset else tensorflow().as_dtype(dtype)))


def test_counter_obeys_the_laws():
    check_laws(lambda ds: Dataset.counter(7, -3), Dataset.range(0))
    check_laws(lambda ds: Dataset.counter().batch(4).take(5), Dataset.range(0))


@pytest.mark.parametrize("args", [(1.5,), ("1",), (2**63,), (0, -(2**63) - 1), (None,)])
def test_what_is_no_int64_is_refused(args):
    both_refuse(lambda D: D.counter(*args))


def test_it_has_no_length():
    with pytest.raises(TypeError, match="infinite"):
        len(Dataset.counter())

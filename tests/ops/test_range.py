"""range."""

import numpy as np
import pytest

from feedline import Dataset, UsageError
from feedline.testing import check_laws
from tests.tfdata import both, both_refuse, tensorflow

END = 2**63 - 1


# The first six are tf.data's own examples.
@pytest.mark.parametrize(
    "args",
    [
        *[(5,), (2, 5), (1, 5, 2), (1, 5, -2), (5, 1), (5, 1, -2)],
        *[(0,), (-3,), (3, 3), (3, 3, -1), (-5, 5, 3), (5, -5, -3), (0, 1, 100)],
        *[(END - 2, END - 1), (-END, 2 - END)],
        *[(np.int32(4),), (np.int64(1), np.uint8(4))],
    ],
)
def test_range_gives_the_numbers_of_tf_data(args):
    both(lambda D: D.range(*args))


# The first two are tf.data's own examples.
@pytest.mark.parametrize(
    ("args", "dtype"),
    [
        *[((2, 5), "int32"), ((1, 5, 2), "float32")],
        *[((300,), "uint8"), ((-3, 3), "uint16"), ((3,), "bfloat16"), ((3,), "complex64"), ((0,), "int8")],
    ],
)
def test_range_gives_other_dtypes_as_tf_data_does(args, dtype):
    both(lambda D: D.range(*args, output_type=dtype if D is Dataset else tensorflow().as_dtype(dtype)), 400)
    check_laws(lambda ds: ds.take(-1), Dataset.range(*args, output_type=dtype))


@pytest.mark.parametrize("dtype", ["string", "bool", "nothing", None, 5])
def test_range_refuses_what_is_no_dtype_of_numbers(dtype):
    with pytest.raises(UsageError, match="give a dtype of numbers"):
        Dataset.range(3, output_type=dtype)


@pytest.mark.parametrize("args", [(7,), (3, 20, 4), (5, -5, -3), (0,), (END - 3, END)])
def test_range_obeys_the_laws(args):
    check_laws(lambda ds: ds.take(-1), Dataset.range(*args))


# Where tf.data runs over the end of int64, and starts again, feedline ends.
@pytest.mark.parametrize(
    "args", [(END - 2, END), (-END - 1, END, 2**62), (END, -END - 1, -(2**62)), (0, END, END)]
)
def test_range_gives_the_numbers_of_python(args):
    assert list(Dataset.range(*args)) == list(range(*args))
    assert Dataset.range(*args).cardinality() == len(range(*args))


def test_a_range_may_be_longer_than_anyone_waits_for():
    long = Dataset.range(-END - 1, END)
    assert long.cardinality() == 2**64 - 1
    assert next(iter(long)) == -END - 1
    assert Dataset.range(END)[-1] == END - 1


@pytest.mark.parametrize("args", [(), (1, 2, 3, 4), (1, 2, 0), ("5",), (2**63,), (None,)])
def test_range_refuses_what_tf_data_refuses(args):
    both_refuse(lambda D: D.range(*args))


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ((), "range(): give stop; start and stop; or start, stop and step."),
        ((1, 5, 0), "range(1, 5, 0): step must not be 0."),
        ((2.5,), "range(2.5,): 2.5 is not a 64-bit integer."),
        ((True,), "range(True,): True is not a 64-bit integer."),
        ((2**63,), f"range({2**63},): {2**63} is not a 64-bit integer."),
    ],
)
def test_range_says_what_is_wrong(args, text):
    with pytest.raises(UsageError) as caught:
        Dataset.range(*args)
    assert str(caught.value) == text

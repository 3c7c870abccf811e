"""enumerate."""

import pytest

from feedline import Dataset, UsageError
from feedline.testing import check_errors, check_laws
from tests.ops.sources import every_source
from tests.tfdata import both, both_refuse

PIPELINES = {
    # tf.data's own examples
    "from 5 on": lambda D: D.from_tensor_slices([1, 2, 3]).enumerate(start=5),
    "pairs": lambda D: D.from_tensor_slices([(7, 8), (9, 10)]).enumerate(),
    "from below 0 on": lambda D: D.range(3).enumerate(-2),
    "nothing": lambda D: D.range(0).enumerate(),
    "for ever": lambda D: D.range(2).repeat().enumerate(),
    "the unknown": lambda D: D.range(9).filter(lambda x: x > 5).enumerate(),
    "twice": lambda D: D.zip(D.range(2), D.range(2)).enumerate().enumerate(10),
    "a dict": lambda D: D.from_tensor_slices({"a": ["x", "y"]}).enumerate(),
}


@pytest.mark.parametrize("pipeline", PIPELINES.values(), ids=PIPELINES.keys())
def test_enumerate_gives_what_tf_data_gives(pipeline):
    both(pipeline, most=20)


@every_source
def test_enumerate_obeys_the_laws(source):
    check_laws(lambda ds: ds.enumerate(3), source)


def test_an_element_that_fails_has_its_number():
    for source in (Dataset.range(12), Dataset.range(12).filter(lambda x: True)):
        events = check_errors(lambda ds: ds.enumerate(), source)
        assert [what for what in events if what[0] == "element"][2] == ("element", (5, 5))


@pytest.mark.parametrize("start", ["1", 1.5, None, 2**63])
def test_enumerate_refuses_what_tf_data_refuses(start):
    both_refuse(lambda D: D.range(3).enumerate(start))


def test_enumerate_says_what_is_wrong():
    with pytest.raises(UsageError) as caught:
        Dataset.range(3).enumerate("1")
    assert str(caught.value) == "enumerate(start='1'): start must be an int, not str."

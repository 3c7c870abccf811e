"""take."""

import pytest

from feedline import Dataset, UsageError
from feedline.testing import assert_same, check_errors, check_laws
from tests.ops import oracle
from tests.ops.sources import every_source
from tests.tfdata import both

COUNTS = (0, 1, 3, 9, 10, 99, -1)


@pytest.mark.parametrize("count", COUNTS)
def test_take_keeps_what_tf_data_keeps(count):
    both(lambda D: D.range(10).take(count))
    both(lambda D: D.range(10).filter(lambda x: x % 3 == 0).take(count))
    both(lambda D: D.range(0).take(count))
    both(lambda D: D.range(3).repeat().take(count), most=20)
    both(lambda D: D.range(10).take(count).take(4).repeat(2))


def test_every_negative_count_means_all_as_in_tf_data():
    for count in (-2, -7, -(2**63)):
        ours, theirs = (D.range(4).take(count) for D in (Dataset, oracle.tf.data.Dataset))
        assert_same(ours, theirs.as_numpy_iterator())
        # tf.data takes the smaller of the count and the cardinality, and says -2 or -7.
        assert ours.cardinality() == len(ours) == 4
    check_laws(lambda ds: ds.take(-2), Dataset.range(9).filter(lambda x: x != 5))


@every_source
def test_take_obeys_the_laws(source):
    check_laws(lambda ds: ds.take(4), source)


@pytest.mark.parametrize("count", COUNTS)
def test_take_obeys_the_laws_for_every_count(count):
    check_laws(lambda ds: ds.take(count), Dataset.range(9))
    check_laws(lambda ds: ds.take(count), Dataset.range(9).filter(lambda x: x != 5))
    check_laws(lambda ds: ds.take(count), Dataset.range(3).repeat(), most=20)


def test_an_element_that_fails_is_not_counted_by_take():
    events = check_errors(lambda ds: ds.take(3), Dataset.range(12))
    assert events[:3] == [("failed", "element 0"), ("element", 1), ("element", 2)]
    assert events[3:] == [("failed", "element 3"), ("failed", "element 4"), ("element", 5)]


def test_what_comes_after_is_never_read():
    seen = []
    dataset = Dataset.range(10).map(lambda x: seen.append(int(x)) or x).take(3)
    assert list(dataset) == [0, 1, 2]
    assert seen == [0, 1, 2]


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (-(2**63) - 1, "take(count=-9223372036854775809): count must be at least -(2**63)."),
        (2.5, "take(count=2.5): count must be an int, not float."),
        ("3", "take(count='3'): count must be an int, not str."),
        (True, "take(count=True): count must be an int, not bool."),
        (None, "take(count=None): count must be an int, not NoneType."),
        (2**63, f"take(count={2**63}): count must be less than 2**63."),
    ],
)
def test_take_says_what_is_wrong(count, text):
    with pytest.raises(UsageError) as caught:
        Dataset.range(3).take(count)
    assert str(caught.value) == text

"""skip."""

import numpy as np
import pytest

from feedline import Dataset, UsageError
from feedline.testing import check_errors, check_laws
from tests.ops.sources import every_source
from tests.tfdata import both

COUNTS = (0, 1, 3, 9, 10, 99, -1, -2, -9)


@pytest.mark.parametrize("count", COUNTS)
def test_skip_leaves_what_tf_data_leaves(count):
    both(lambda D: D.range(10).skip(count))
    both(lambda D: D.range(10).filter(lambda x: x % 3 == 0).skip(count))
    both(lambda D: D.range(0).skip(count))
    if count >= 0:  # tf.data says "infinite", and gives nothing
        both(lambda D: D.range(3).repeat().skip(count), most=20)
    both(lambda D: D.range(10).skip(count).skip(4).repeat(2))


@every_source
def test_skip_obeys_the_laws(source):
    check_laws(lambda ds: ds.skip(3), source)


@pytest.mark.parametrize("count", COUNTS)
def test_skip_obeys_the_laws_for_every_count(count):
    check_laws(lambda ds: ds.skip(count), Dataset.range(9))
    check_laws(lambda ds: ds.skip(count), Dataset.range(9).filter(lambda x: x != 5))


def test_errors_come_in_their_place():
    check_errors(lambda ds: ds.skip(2), Dataset.range(12))
    check_errors(lambda ds: ds.skip(2), Dataset.range(12).filter(lambda x: True))


def test_what_is_skipped_of_an_indexed_dataset_is_not_computed():
    seen = []
    assert list(Dataset.range(5).map(lambda x: seen.append(int(x)) or x).skip(3)) == [3, 4]
    assert seen == [3, 4]


def test_numpy_integers_are_integers():
    rows = iter(Dataset.range(5).filter(lambda x: True).skip(np.int64(3)))
    assert next(rows) == 3
    assert rows.state_dict()["position"][2] == 1


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (-(2**63) - 1, "skip(count=-9223372036854775809): count must be at least -(2**63)."),
        (2.5, "skip(count=2.5): count must be an int, not float."),
    ],
)
def test_skip_says_what_is_wrong(count, text):
    with pytest.raises(UsageError) as caught:
        Dataset.range(3).skip(count)
    assert str(caught.value) == text

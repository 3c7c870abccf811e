"""repeat."""

import json

import numpy as np
import pytest

from feedline import INFINITE_CARDINALITY, Dataset, UsageError
from feedline.testing import check_errors, check_laws
from tests.ops.sources import every_source
from tests.tfdata import both

COUNTS = (None, -1, -2, -9, 0, 1, 2, 5)


@pytest.mark.parametrize("count", COUNTS)
def test_repeat_gives_what_tf_data_gives(count):
    both(lambda D: D.range(3).repeat(count), most=20)
    both(lambda D: D.range(9).filter(lambda x: x % 4 == 0).repeat(count), most=20)
    both(lambda D: D.range(0).repeat(count))
    both(lambda D: D.range(9).filter(lambda x: x < 0).repeat(count))
    both(lambda D: D.range(2).repeat(count).batch(3).repeat(2), most=20)
    both(lambda D: D.range(2).repeat(2).repeat(count), most=20)


@every_source
def test_repeat_obeys_the_laws(source):
    check_laws(lambda ds: ds.repeat(2), source)


@pytest.mark.parametrize("count", COUNTS)
def test_repeat_obeys_the_laws_for_every_count(count):
    check_laws(lambda ds: ds.repeat(count), Dataset.range(4), most=11)
    check_laws(lambda ds: ds.repeat(count), Dataset.range(9).filter(lambda x: x % 4 == 0), most=11)
    check_laws(lambda ds: ds.repeat(count), Dataset.range(9).filter(lambda x: x < 0), most=11) if (
        count is not None and count >= 0
    ) else None
    check_laws(lambda ds: ds.repeat(2).repeat(count), Dataset.range(2), most=11)


def test_errors_come_in_their_place():
    check_errors(lambda ds: ds.repeat(2), Dataset.range(12))


def test_each_round_has_its_own_order():
    rounds = np.reshape(list(Dataset.range(50).shuffle(50, seed=1).repeat(3)), (3, 50))
    assert [sorted(one) for one in rounds.tolist()] == [list(range(50))] * 3
    assert len({tuple(one) for one in rounds.tolist()}) == 3


def test_a_repeated_nothing_ends():
    assert list(Dataset.range(9).filter(lambda x: x < 0).repeat()) == []
    assert Dataset.range(0).repeat().cardinality() == 0
    assert Dataset.range(9).filter(lambda x: x < 0).repeat().cardinality() == INFINITE_CARDINALITY


def test_rounds_that_give_nothing_are_gone_through():
    firsts = list(Dataset.range(4).shuffle(4, seed=1).repeat(40))[::4]
    late = next(first for first in firsts if first != firsts[0])
    those = Dataset.range(4).shuffle(4, seed=1).take(1).filter(lambda x: x == late)
    assert list(those.repeat(40)) == [late] * firsts.count(late)
    check_laws(lambda ds: ds.repeat(12), those)


def test_tf_data_goes_through_rounds_that_give_nothing_too():
    tf = pytest.importorskip("tensorflow", reason="TensorFlow is the oracle")
    runs = iter(range(9))

    def now_and_then():
        yield from range(2 * (next(runs) % 2))

    rows = tf.data.Dataset.from_generator(now_and_then, output_signature=tf.TensorSpec((), tf.int64))
    assert list(rows.repeat(5).as_numpy_iterator()) == [0, 1, 0, 1]


def test_numpy_integers_are_integers():
    rows = iter(Dataset.range(2).repeat(np.int32(1)))
    assert list(rows) == [0, 1]
    json.dumps(rows.state_dict())


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (-(2**63) - 1, "repeat(count=-9223372036854775809): count must be at least -(2**63)."),
        ("2", "repeat(count='2'): count must be an int, not str."),
    ],
)
def test_repeat_says_what_is_wrong(count, text):
    with pytest.raises(UsageError) as caught:
        Dataset.range(3).repeat(count)
    assert str(caught.value) == text

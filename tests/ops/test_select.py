"""ds[i] and ds[a:b:c]."""

import numpy as np
import pytest

from feedline import Dataset
from feedline.testing import check_errors, check_laws
from tests.ops.sources import SOURCES

INDEXED = {name: source for name, source in SOURCES.items() if source._node.length() is not None}
SLICES = [
    slice(None),
    slice(2, 5),
    slice(-3, None),
    slice(None, None, -1),
    slice(7, 1, -3),
    slice(4, 4),
    slice(5, 99),
]


@pytest.mark.parametrize("source", INDEXED.values(), ids=INDEXED.keys())
def test_slices_obey_the_laws(source):
    check_laws(lambda ds: ds[1:4], source)
    check_laws(lambda ds: ds[::-2], source)


@pytest.mark.parametrize("part", SLICES, ids=str)
def test_slices_are_those_of_a_list(part):
    assert list(Dataset.range(9)[part]) == list(range(9))[part]
    assert list(Dataset.range(9)[part][::-1]) == list(range(9))[part][::-1]
    assert len(Dataset.range(9)[part]) == len(list(range(9))[part])


def test_an_element_is_computed_alone():
    seen = []
    dataset = Dataset.range(100).map(lambda x: seen.append(int(x)) or x).batch(10)
    assert dataset[-1].tolist() == list(range(90, 100))
    assert seen == list(range(90, 100))


def test_chains_of_every_indexed_step_can_be_indexed():
    numbers = Dataset.range(20)
    dataset = (
        Dataset.zip(numbers.skip(1).take(9), numbers.shard(2, 1).map(lambda x: -x))
        .concatenate(numbers.enumerate())
        .repeat(2)
        .prefetch(2)[3:]
        .batch(4)
    )
    rows = list(dataset)
    assert len(dataset) == len(rows) == 14
    for number in np.random.default_rng(1).permutation(14).tolist():
        for one, other in zip(dataset[number], rows[number], strict=True):
            assert one.tolist() == other.tolist()


def test_errors_come_in_their_place():
    check_errors(lambda ds: ds[1:], Dataset.range(12))
    check_errors(lambda ds: ds[::-1], Dataset.range(12))


def test_what_cannot_be_indexed_says_why():
    dataset = Dataset.range(9).filter(lambda x: True).batch(2)
    for use in (lambda: dataset[0], lambda: dataset[1:]):
        with pytest.raises(
            TypeError, match=r"^filter, added at .*: this dataset cannot be indexed, only iterated"
        ):
            use()
    for index in (9, -10):
        with pytest.raises(IndexError, match=f"element {index} of a dataset of 9"):
            Dataset.range(9)[index]


def test_the_length_is_told_when_it_is_known():
    assert len(Dataset.range(9).map(lambda x: x).batch(2)) == 5
    with pytest.raises(TypeError, match="is infinite"):
        len(Dataset.range(9).repeat())
    with pytest.raises(TypeError, match="is not known before it is iterated"):
        len(Dataset.range(9).filter(lambda x: True))
    assert Dataset.range(0)


@pytest.mark.parametrize("index", ["a", 1.5, None])
def test_what_is_no_number_and_no_slice_is_refused(index):
    with pytest.raises(TypeError, match="indexed by a whole number, or by a slice"):
        Dataset.range(3)[index]

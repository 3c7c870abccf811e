"""choose_from_datasets: which dataset the next element comes from, and when it ends."""

from __future__ import annotations

import json
from functools import partial
from itertools import product

import numpy as np
import pytest

from feedline import INFINITE_CARDINALITY, UNKNOWN_CARDINALITY, Dataset, Ragged, UsageError
from feedline.graph import Context
from feedline.run import LocalServices
from feedline.testing import check_errors, check_laws
from tests.tfdata import both, both_refuse, tensorflow


def chosen(D, choices, sizes, stop):
    parts = [D.range(100 * i, 100 * i + size) for i, size in enumerate(sizes)]
    return D.choose_from_datasets(parts, D.from_tensor_slices(np.array(choices, np.int64)), stop)


def test_the_example_of_tf_datas_documentation():
    def pipeline(D):
        parts = [D.from_tensors(word).repeat() for word in ("foo", "bar", "baz")]
        return D.choose_from_datasets(parts, D.range(3).repeat(3)).map(lambda x: x)

    assert list(pipeline(Dataset)) == [b"foo", b"bar", b"baz"] * 3
    assert list(pipeline(tensorflow().data.Dataset).as_numpy_iterator()) == list(pipeline(Dataset))


def test_the_datasets_may_come_out_of_a_generator():
    both(lambda D: D.choose_from_datasets((D.range(3) for _ in range(2)), D.range(2).repeat(2)))


def test_elements_are_those_of_tf_data_whatever_the_sizes_and_choices():
    rng = np.random.default_rng(1)
    for count, stop, _ in product((1, 2, 5), (True, False), range(4)):
        sizes = rng.integers(0, 8, count).tolist()
        choices = rng.integers(0, count, 20)
        both(partial(chosen, choices=choices, sizes=sizes, stop=stop))


def test_by_default_it_stops_at_a_dataset_that_has_ended():
    parts = [Dataset.range(2), Dataset.range(10, 15)]
    choices = Dataset.from_tensor_slices(np.array([0, 0, 1, 0, 1]))
    assert [int(x) for x in Dataset.choose_from_datasets(parts, choices)] == [0, 1, 10]
    assert [int(x) for x in Dataset.choose_from_datasets(parts, choices, False)] == [0, 1, 10, 11]


def test_it_obeys_the_laws():
    parts = [Dataset.range(7), Dataset.range(100, 120).filter(lambda x: x % 3 > 0), Dataset.range(200, 203)]
    check_laws(lambda ds: Dataset.choose_from_datasets(parts, ds), Dataset.range(3).repeat(6))
    check_laws(lambda ds: Dataset.choose_from_datasets(parts, ds, False), Dataset.range(3).repeat(20))
    check_laws(lambda ds: Dataset.choose_from_datasets([ds], Dataset.range(1).repeat()), Dataset.range(9))


def test_elements_may_be_of_any_kind_and_shape():
    def part(begin):
        numbers = Dataset.range(begin, begin + 9)
        return numbers.map(lambda x: {"x": np.full(x % 3, x), "y": (str(x), Ragged(np.arange(x), [0, x]))})

    parts = [part(0), part(4).shuffle(4, seed=1), part(2)]
    check_laws(lambda ds: Dataset.choose_from_datasets(parts, ds, False), Dataset.range(3).repeat(8))


def test_many_datasets_of_many_blocks_come_in_order():
    parts = [Dataset.range(i, 40_000, 40) for i in range(40)]
    order = np.random.default_rng(0).permutation(np.repeat(np.arange(40), 1000))
    found = np.fromiter(Dataset.choose_from_datasets(parts, Dataset.from_tensor_slices(order)), np.int64)
    nth = np.zeros(40, np.int64)
    for number, part in zip(found.tolist(), order.tolist(), strict=True):
        assert number == nth[part] * 40 + part
        nth[part] += 1


def test_an_error_of_a_dataset_or_of_the_choices_comes_in_its_place():
    choices = Dataset.range(2).repeat(9)
    check_errors(lambda ds: Dataset.choose_from_datasets([ds, Dataset.range(50)], choices), Dataset.range(12))
    parts = [Dataset.range(9), Dataset.range(100, 120)]
    check_errors(lambda ds: Dataset.choose_from_datasets(parts, ds), choices)


def test_a_choice_of_no_dataset_fails_and_the_rest_goes_on_as_in_tf_data():
    tf = tensorflow()

    def events(elements, errors):
        found = []
        while True:
            try:
                found.append(int(next(elements)))
            except StopIteration:
                return found
            except errors:
                found.append("failed")

    def pipeline(D):
        return chosen(D, [0, 3, 0, -1, 0, 1], [5, 2], True)

    ours = events(iter(pipeline(Dataset)), UsageError)
    assert ours == [0, "failed", 1, "failed", 2, 100]
    theirs = pipeline(tf.data.Dataset).as_numpy_iterator()
    assert ours == events(theirs, tf.errors.InvalidArgumentError)
    with pytest.raises(UsageError, match=r"choice 1 \(counted from 0\) is 3; there are 2 datasets"):
        list(pipeline(Dataset))


def test_what_tf_data_refuses_is_refused():
    both_refuse(lambda D: D.choose_from_datasets([], D.range(1)))
    both_refuse(lambda D: D.choose_from_datasets([D.range(1)], [0]))
    both_refuse(lambda D: D.choose_from_datasets([D.range(1)], D.from_tensor_slices([0])))  # int32
    both_refuse(lambda D: D.choose_from_datasets([D.range(1)], D.range(2).batch(1)))
    both_refuse(lambda D: D.choose_from_datasets([D.range(1), D.from_tensor_slices([0])], D.range(2)))
    both_refuse(lambda D: D.choose_from_datasets([D.range(1), D.zip(D.range(1), D.range(1))], D.range(2)))
    with pytest.raises(UsageError, match="give datasets, not int"):
        Dataset.choose_from_datasets([Dataset.range(1), 5], Dataset.range(2))


def test_what_only_elements_tell_is_refused_when_they_come():
    wrong = Dataset.range(4).map(lambda x: np.float32(x))
    with pytest.raises(UsageError, match=r"choices\.map\(np\.int64\)"):
        list(Dataset.choose_from_datasets([Dataset.range(4)], wrong))
    with pytest.raises(UsageError, match="element is float32 here, and was int64 in"):
        list(Dataset.choose_from_datasets([Dataset.range(4), wrong], Dataset.range(2)))
    with pytest.raises(UsageError, match="must have the same tuples"):
        list(Dataset.choose_from_datasets([wrong, wrong.map(lambda x: (x, x))], Dataset.range(2)))


def test_the_spec_fits_all_datasets_as_in_tf_data():
    both(lambda D: D.choose_from_datasets([D.range(8).batch(3), D.range(8).batch(4, True)], D.range(2)))
    both(lambda D: D.choose_from_datasets([D.range(8).batch(2, True), D.range(8)], D.range(2)))


def test_the_cardinality_says_infinite_only_where_it_is():
    finite, endless = Dataset.range(3), Dataset.counter()
    turns, some = Dataset.range(2).repeat(), Dataset.range(2)

    def cardinality(parts, choices, stop):
        return Dataset.choose_from_datasets(parts, choices, stop).cardinality()

    for stop in (True, False):
        assert cardinality([endless, endless], turns, stop) == INFINITE_CARDINALITY
        assert cardinality([endless, endless], some, stop) == UNKNOWN_CARDINALITY
        assert cardinality([finite, finite], turns, stop) == UNKNOWN_CARDINALITY
    assert cardinality([endless, finite], turns, True) == UNKNOWN_CARDINALITY
    assert cardinality([endless, finite], turns, False) == INFINITE_CARDINALITY


def test_the_state_holds_no_elements():
    parts = [Dataset.range(10_000).map(lambda x: np.zeros(50)) for _ in range(2)]
    elements = iter(Dataset.choose_from_datasets(parts, Dataset.range(2).repeat(3000)))
    for _ in range(3000):
        next(elements)
    assert len(json.dumps(elements.state_dict())) < 400


def test_of_large_rows_few_are_held_at_a_time():
    row = 1 << 16
    read = []
    rows = Dataset.range(400).map(lambda x: read.append(x) or np.zeros(row, np.uint8))
    context = Context(LocalServices(), block_bytes=4 * row)
    stream = context.open(Dataset.choose_from_datasets([rows, rows], Dataset.range(2).repeat())._node)
    assert stream.next(4096).rows == 32
    assert len(read) < 200
    stream.close()

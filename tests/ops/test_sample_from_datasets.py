"""sample_from_datasets: how often each dataset is drawn, and when the draws are the same again."""

from __future__ import annotations

import json
from itertools import islice

import numpy as np
import pytest

from feedline import Dataset, UsageError
from feedline.testing import check_errors, check_laws
from tests.chance import surprise
from tests.tfdata import both, both_refuse, tensorflow

PARTS = [Dataset.range(0, 5), Dataset.range(100, 120), Dataset.range(200, 203)]


MANY = 100_000


def long_ones(D, count=3):
    """Datasets whose elements, divided by MANY, tell their number."""
    return [D.range(number * MANY, (number + 1) * MANY) for number in range(count)]


def drawn(dataset, draws=6000):
    """The numbers of the datasets that were drawn."""
    return np.array(next(iter(dataset.batch(draws)))) // MANY


def counts(dataset, draws=6000):
    return np.bincount(drawn(dataset, draws), minlength=3)


def test_each_dataset_keeps_its_order_and_nothing_is_lost():
    found = [int(x) for x in Dataset.sample_from_datasets(PARTS, seed=2)]
    assert sorted(found) == [*range(5), *range(100, 120), *range(200, 203)]
    for number in range(3):
        own = [x for x in found if x // 100 == number]
        assert own == sorted(own)


@pytest.mark.parametrize("weights", [None, [0.5, 0.2, 0.3], [0.0, 3.0, 1.0], np.array([1e-9, 0.25, 0.25])])
def test_draws_follow_the_weights_as_in_tf_data(weights):
    expected = np.ones(3) if weights is None else np.asarray(weights)
    expected = np.where(expected > 1e-6, expected, 0)
    for D, draws in ((Dataset, 6000), (tensorflow().data.Dataset, 500)):
        sampled = D.sample_from_datasets(long_ones(D), weights=weights, seed=1)
        assert surprise(counts(sampled, draws), expected) < 4


def test_successive_draws_are_independent():
    found = drawn(Dataset.sample_from_datasets(long_ones(Dataset), seed=9), 9000)
    for lag in (1, 2, 4):
        pairs = np.bincount(found[:-lag] * 3 + found[lag:], minlength=9)
        assert surprise(pairs, np.ones(9)) < 4


@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("again", [None, False, True])
def test_iterations_are_the_same_when_tf_datas_are(seed, again):
    def facts(D):
        parts = long_ones(D)
        sampled = D.sample_from_datasets(parts, seed=seed, rerandomize_each_iteration=again).take(40)
        first, second = ([int(x) for x in sampled.as_numpy_iterator()] for _ in range(2))
        rounds = [int(x) for x in sampled.repeat(2).as_numpy_iterator()]
        return first == second, rounds[:40] == rounds[40:]

    assert facts(Dataset) == facts(tensorflow().data.Dataset)


def test_with_a_seed_draws_are_the_same_in_each_run():
    sampled = Dataset.sample_from_datasets(long_ones(Dataset), seed=3)
    assert drawn(sampled, 12).tolist() == [2, 1, 1, 0, 0, 1, 2, 0, 1, 0, 0, 0]


def test_weights_may_change_from_draw_to_draw_as_in_tf_data():
    weights = np.eye(3)[[0, 2, 1, 1, 0, 2, 2]]

    def pipeline(D):
        parts = [D.range(3), D.range(10, 13), D.range(20, 23)]
        return D.sample_from_datasets(parts, weights=D.from_tensor_slices(weights))

    assert [int(x) for x in both(pipeline)] == [0, 20, 10, 11, 1, 21, 22]
    changing = Dataset.from_tensor_slices(np.tile([0.5, 0.2, 0.3], (6000, 1)))
    sampled = Dataset.sample_from_datasets(long_ones(Dataset), weights=changing, seed=2)
    assert surprise(counts(sampled), [0.5, 0.2, 0.3]) < 4


def test_with_stop_on_empty_dataset_it_stops_there():
    parts = [Dataset.range(3), Dataset.counter(100)]
    found = [int(x) for x in Dataset.sample_from_datasets(parts, stop_on_empty_dataset=True)]
    assert [x for x in found if x < 100] == [0, 1, 2]


def test_one_dataset_that_has_weight_is_given_as_it_is_as_in_tf_data():
    both(lambda D: D.sample_from_datasets([D.range(3)]))
    both(lambda D: D.sample_from_datasets([D.range(9), D.range(3)], weights=[0.0, 0.5]))
    both(lambda D: D.sample_from_datasets([D.range(9), D.range(3)], weights=[0.0, 0.0]))


def test_cardinality_is_that_of_tf_data():
    def cardinality(D, stop, *sizes):
        parts = [D.counter() if size < 0 else D.range(size) for size in sizes]
        return int(D.sample_from_datasets(parts, stop_on_empty_dataset=stop).cardinality())

    tf_dataset = tensorflow().data.Dataset
    for case in ((False, 2, 3), (False, 2, -1), (True, 2, 3), (False, -1, -1), (True, -1, -1)):
        assert cardinality(Dataset, *case) == cardinality(tf_dataset, *case)
    # tf.data says -1, infinite, here; but it ends.
    assert cardinality(Dataset, True, 2, -1) == -2


def test_it_obeys_the_laws():
    check_laws(lambda ds: Dataset.sample_from_datasets([ds, *PARTS[1:]], seed=1), Dataset.range(5))
    weighed = ([0.2, 0.5, 0.3], 1, True)
    check_laws(lambda ds: Dataset.sample_from_datasets([ds, *PARTS[1:]], *weighed), Dataset.range(5))
    weights = Dataset.from_tensor_slices(np.random.default_rng(0).random((30, 3)))
    check_laws(lambda ds: Dataset.sample_from_datasets(PARTS, ds, seed=5), weights)
    again = Dataset.sample_from_datasets(PARTS[1:], seed=5, rerandomize_each_iteration=True)
    check_laws(lambda ds: again.repeat(2), Dataset.range(0))


def test_an_error_of_a_dataset_comes_in_its_place():
    check_errors(lambda ds: Dataset.sample_from_datasets([ds, *PARTS], seed=1), Dataset.range(12))


def test_a_state_carries_a_seed_that_was_drawn():
    elements = iter(Dataset.sample_from_datasets(long_ones(Dataset)).take(50))
    list(islice(elements, 7))
    state = json.loads(json.dumps(elements.state_dict()))
    elsewhere = iter(Dataset.sample_from_datasets(long_ones(Dataset)).take(50))
    elsewhere.load_state_dict(state)
    assert list(elsewhere) == list(elements)


def test_what_tf_data_refuses_is_refused():
    both_refuse(lambda D: D.sample_from_datasets([]))
    both_refuse(lambda D: D.sample_from_datasets([D.range(1), D.range(2)], weights=[1.0]))
    for weights in (["a", "b"], [True, True], [1 + 5j, 3.0]):
        both_refuse(lambda D, weights=weights: D.sample_from_datasets([D.range(1), D.range(2)], weights))
    both_refuse(lambda D: D.sample_from_datasets([D.range(1), D.from_tensor_slices([0])]))


@pytest.mark.parametrize("weights", [[-1.0, 2.0], [np.nan, 1.0], [np.inf, 1.0]])
def test_weights_that_cannot_be_meant_are_refused(weights):
    with pytest.raises(UsageError, match="0 or more and finite"):
        Dataset.sample_from_datasets([Dataset.range(1), Dataset.range(2)], weights=weights)


def test_wrong_weights_among_changing_ones_fail_in_their_place():
    given = [[1.0, 0.0], [0.0, 0.0], [0.0, 1.0], [-1.0, 1.0], [1.0, 0.0]]
    parts = [Dataset.range(9), Dataset.range(100, 109)]
    elements = iter(Dataset.sample_from_datasets(parts, Dataset.from_tensor_slices(np.array(given))))
    assert next(elements) == 0
    with pytest.raises(UsageError, match="one at least must be more than 0"):
        next(elements)
    assert next(elements) == 100
    with pytest.raises(UsageError, match="0 or more and finite"):
        next(elements)
    assert next(elements) == 1
    shapes = Dataset.range(3).map(lambda x: np.ones(3 if x == 1 else 2))
    elements = iter(Dataset.sample_from_datasets(parts, shapes))
    next(elements)
    with pytest.raises(UsageError, match=r"2 datasets need 2 weights, not \(3,\)"):
        next(elements)
    next(elements)

"""random: which numbers come, and when they are the same again."""

from __future__ import annotations

import json
from itertools import islice

import numpy as np
import pytest

from feedline import INFINITE_CARDINALITY, Dataset, UsageError
from feedline.testing import check_laws
from tests.chance import surprise
from tests.tfdata import check_spec, tensorflow


def numbers(dataset, count=10):
    return [int(x) for x in islice(dataset, count)]


def test_with_a_seed_numbers_are_the_same_in_each_iteration_and_each_run():
    random = Dataset.random(seed=4)
    assert numbers(random) == numbers(random) == numbers(Dataset.random(seed=4))
    assert numbers(random) != numbers(Dataset.random(seed=5))
    assert numbers(random, 4) == [181642303, 1153963448, 311514764, 962913384]


@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("again", [None, False, True])
def test_iterations_are_the_same_when_tf_datas_are(seed, again):
    def facts(cls):
        random = cls.random(seed=seed, rerandomize_each_iteration=again).take(5)
        first, second = ([int(x) for x in random.as_numpy_iterator()] for _ in range(2))
        rounds = [int(x) for x in random.repeat(2).as_numpy_iterator()]
        return first == second, rounds[:5] == rounds[5:]

    assert facts(Dataset) == facts(tensorflow().data.Dataset)


def test_without_a_seed_each_dataset_has_its_own_numbers():
    assert numbers(Dataset.random()) != numbers(Dataset.random())


def test_numbers_are_in_tf_datas_range_and_uniform():
    theirs = tensorflow().data.Dataset.random(seed=1)
    ours = Dataset.random(seed=1)
    check_spec(ours.element_spec, theirs.element_spec)
    assert ours.cardinality() == int(theirs.cardinality()) == INFINITE_CARDINALITY
    for dataset in (ours, theirs):
        found = np.array(next(iter(dataset.batch(20_000))))
        assert surprise(np.bincount(found >> 26, minlength=64), np.ones(64)) < 4  # so none is 2**32 or more
        assert surprise(np.bincount(found & 63), np.ones(64)) < 4


def test_random_obeys_the_laws():
    check_laws(lambda ds: Dataset.random(seed=1), Dataset.range(0))
    again = Dataset.random(seed=1, rerandomize_each_iteration=True)
    check_laws(lambda ds: again.take(7).repeat(3), Dataset.range(0))


def test_a_state_carries_a_seed_that_was_drawn():
    elements = iter(Dataset.random().take(20))
    list(islice(elements, 7))
    state = json.loads(json.dumps(elements.state_dict()))
    elsewhere = iter(Dataset.random().take(20))
    elsewhere.load_state_dict(state)
    assert list(elsewhere) == list(elements)


def test_a_state_stays_small_and_is_reached_without_the_numbers_before_it():
    elements = iter(Dataset.random(seed=1))
    state = elements.state_dict()
    state["position"][0][1] = 10**15 + 3
    elements.load_state_dict(state)
    assert len(numbers(elements)) == 10
    assert len(json.dumps(elements.state_dict())) < 200


@pytest.mark.parametrize("wrong", [{"seed": 0.5}, {"seed": 2**64}, {"rerandomize_each_iteration": "yes"}])
def test_wrong_arguments_are_refused(wrong):
    with pytest.raises(UsageError, match=f"random\\({next(iter(wrong))}="):
        Dataset.random(**wrong)

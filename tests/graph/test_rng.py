"""rng: the numbers of an element are its own, whoever computes it."""

from __future__ import annotations

import json

import numpy as np
import pytest

import feedline as fl
from feedline.testing import check_laws


def noisy(x):
    return x, fl.rng().normal(), fl.rng().integers(1 << 30), fl.rng(7).random()


HOW = {
    "here": {},
    "processes": {"num_parallel_calls": 2},
    "threads": {"num_parallel_calls": 3, "executor": "thread"},
}


def test_numbers_do_not_depend_on_where_they_are_drawn():
    found = [list(fl.Dataset.range(50).map(noisy, **how)) for how in HOW.values()]
    assert found[0] == found[1] == found[2]
    normal = [element[1] for element in found[0]]
    assert len(set(normal)) == 50


@pytest.mark.parametrize("how", HOW.values(), ids=HOW.keys())
def test_functions_that_draw_obey_the_laws(how):
    check_laws(lambda ds: ds.map(noisy, **how), fl.Dataset.range(20))


def test_each_epoch_has_numbers_of_its_own():
    ds = fl.Dataset.range(5).map(lambda x: fl.rng().random())
    epochs = [[float(x) for x in ds] for _ in range(3)]
    assert len({x for epoch in epochs for x in epoch}) == 15
    repeated = [float(x) for x in fl.Dataset.range(5).map(lambda x: fl.rng().random()).repeat(2)]
    assert len(set(repeated)) == 10


def test_an_iteration_that_is_resumed_goes_on_with_the_same_numbers():
    def make():
        return fl.Dataset.range(30).map(noisy, num_parallel_calls=2)

    ds = make()
    list(ds)
    second = iter(ds)
    begun = [next(second) for _ in range(11)]
    state = json.loads(json.dumps(second.state_dict()))
    rest = list(second)
    resumed = iter(make())
    resumed.load_state_dict(state)
    assert list(resumed) == rest
    assert len(begun) + len(rest) == 30


def test_two_steps_draw_different_numbers():
    ds = fl.Dataset.range(20).map(lambda x: fl.rng().random()).map(lambda x: (x, fl.rng().random()))
    assert all(one != other for one, other in ds)


def test_numbers_are_spread_as_they_should_be():
    values = np.array([float(x) for x in fl.Dataset.range(4000).map(lambda x: fl.rng().normal())])
    assert abs(values.mean()) < 4 / np.sqrt(4000)
    assert abs(values.std() - 1) < 0.05
    assert abs(np.corrcoef(values[:-1], values[1:])[0, 1]) < 0.07


def test_elsewhere_it_says_where_to_call_it():
    with pytest.raises(fl.UsageError, match="inside of a function that map"):
        fl.rng()

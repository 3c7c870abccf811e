"""Datasets that functions make, with random steps in them that were given no seed."""

from __future__ import annotations

import json

import pytest

import feedline as fl
from feedline import Dataset


def shuffled(x):
    return Dataset.range(10 * x, 10 * x + 7).shuffle(4)


def of_group(key, group):
    return group.shuffle(3).map(lambda x: x + 100 * key)


def sampled(x):
    return Dataset.sample_from_datasets([Dataset.range(6).shuffle(3), Dataset.range(90, 96)])


def noisy(x):
    return Dataset.range(5).map(lambda y: fl.rng().integers(1000))


MADE = {
    "flat_map": lambda: Dataset.range(4).flat_map(shuffled),
    "interleave": lambda: Dataset.range(4).interleave(shuffled, cycle_length=3, block_length=2),
    "in workers": lambda: Dataset.range(3).interleave(
        lambda x: shuffled(x).map(lambda y: y, executor="thread"), cycle_length=2, num_parallel_calls=2
    ),
    "in one another": lambda: Dataset.range(3).flat_map(
        lambda x: Dataset.range(x, x + 2).shuffle(2).flat_map(shuffled)
    ),
    "group_by_window": lambda: Dataset.range(23).group_by_window(lambda x: x % 2, of_group, window_size=5),
    "window": lambda: Dataset.range(17).window(5).flat_map(lambda window: window.shuffle(5)),
    "of random elements": lambda: Dataset.range(9).shuffle(5).flat_map(shuffled),
    "sampled": lambda: Dataset.range(3).flat_map(sampled),
    "random numbers": lambda: Dataset.range(3).flat_map(lambda x: Dataset.random().take(4)),
    "global shuffle": lambda: Dataset.range(3).flat_map(lambda x: Dataset.range(8).shuffle()),
    "rng": lambda: Dataset.range(3).flat_map(noisy),
    "repeated": lambda: Dataset.range(2).flat_map(shuffled).repeat(2),
}

each = pytest.mark.parametrize("made", MADE.values(), ids=MADE.keys())


@each
def test_a_resumed_iteration_loses_and_repeats_nothing(made):
    rows = iter(made())
    expected, states = [], [json.dumps(rows.state_dict())]
    for element in rows:
        expected.append(int(element))
        states.append(json.dumps(rows.state_dict()))
    step = 1 if len(expected) < 40 else 5
    for at in range(0, len(states), step):
        later = iter(made())  # its steps have drawn other seeds
        later.load_state_dict(json.loads(states[at]))
        assert [int(x) for x in later] == expected[at:], at


@pytest.mark.parametrize("made", [MADE["flat_map"], MADE["interleave"], MADE["group_by_window"]])
def test_another_run_goes_on_with_what_one_began_to_cache(made, tmp_path):
    one = iter(made().cache(tmp_path))
    begun = [int(next(one)) for _ in range(9)]
    one.close()
    whole = [int(x) for x in made().cache(tmp_path)]
    assert whole[:9] == begun
    assert sorted(whole) == sorted(int(x) for x in made())


@pytest.mark.parametrize("name", [name for name in MADE if name != "rng"])
def test_another_pipeline_draws_other_numbers(name):
    orders = [[int(x) for x in MADE[name]()] for _ in range(5)]
    assert any(order != orders[0] for order in orders)


def test_each_iteration_has_an_order_of_its_own():
    dataset = MADE["flat_map"]()
    orders = [[int(x) for x in dataset] for _ in range(4)]
    assert len({tuple(order) for order in orders}) > 1
    assert len({tuple(sorted(order)) for order in orders}) == 1


def test_each_dataset_has_an_order_of_its_own():
    for dataset in (Dataset.range(20).flat_map(lambda x: Dataset.range(7).shuffle(7)), _of_one_dataset()):
        rows = [int(x) for x in dataset]
        orders = {tuple(rows[at : at + 7]) for at in range(0, 140, 7)}
        assert all(sorted(order) == list(range(7)) for order in orders)
        assert len(orders) > 1


def _of_one_dataset():
    shared = Dataset.range(7).shuffle(7)
    return Dataset.range(20).flat_map(lambda x: shared)


def test_what_is_cached_keeps_its_order():
    shared = Dataset.range(7).shuffle(7).cache()
    rows = [int(x) for x in Dataset.range(20).flat_map(lambda x: shared)]
    assert rows == rows[:7] * 20


def test_the_numbers_of_rng_are_other_ones_in_each_dataset():
    rows = [int(x) for x in MADE["rng"]()]
    assert len(set(rows)) > len(rows) // 2

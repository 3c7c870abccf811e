"""Orders that are computed: one-to-one, random, and the same for ever."""

import itertools

import numpy as np
import pytest

from feedline.graph.permutation import _STORED, Permutation
from tests.chance import surprise

COMPUTED = _STORED + 1  # the fewest numbers that go through the network


NEAR_POWERS = [1, 2, 3, 4, 5, 7, 8, 9, _STORED - 1, _STORED, COMPUTED, 2**15, 2**15 + 1]


@pytest.mark.parametrize("count", [*NEAR_POWERS, 1000, 99_991, 10**6])
def test_an_order_has_each_number_once(count):
    order = Permutation(3, count).at(np.arange(count))
    assert order.dtype == np.int64
    np.testing.assert_array_equal(np.sort(order), np.arange(count))


@pytest.mark.parametrize("count", [COMPUTED + step for step in range(0, 400, 37)])
def test_an_order_has_each_number_once_however_many_pairs_are_over(count):
    np.testing.assert_array_equal(np.sort(Permutation(count, count).at(np.arange(count))), np.arange(count))


@pytest.mark.parametrize("count", [10**9 + 7, 2**40 + 1, 10**15, 2**62, 2**63 - 1])
def test_of_very_many_numbers_none_comes_twice(count):
    rng = np.random.default_rng(0)
    places = np.unique(np.concatenate([np.arange(50_000), rng.integers(0, count, 50_000), [count - 1]]))
    numbers = Permutation(11, count).at(places)
    assert len(np.unique(numbers)) == len(places)
    assert numbers.min() >= 0
    assert numbers.max() < count


@pytest.mark.parametrize("count", [10, COMPUTED, 10**9])
def test_a_number_depends_on_its_place_alone(count):
    order = Permutation(5, count)
    places = np.random.default_rng(1).integers(0, count, 300)
    together = order.at(places)
    assert [int(order.at(np.array([place]))[0]) for place in places] == together.tolist()
    assert order.at(places[:0]).tolist() == []


@pytest.mark.parametrize("count", [20, COMPUTED, 10**9])
def test_another_key_is_another_order(count):
    orders = [Permutation(key, count).at(np.arange(20)).tolist() for key in (0, 1, 2, 2**32, 2**64 - 1)]
    for one, other in itertools.combinations(orders, 2):
        assert one != other


def test_the_orders_stay_as_they_are():
    """Users go on with a saved state, or repeat a run from its seed, in later versions too."""
    assert Permutation(7, 10).at(np.arange(10)).tolist() == [3, 0, 7, 4, 2, 1, 6, 8, 5, 9]
    assert Permutation(7, 10**6).at(np.arange(5)).tolist() == [875808, 94, 103474, 285541, 638407]
    assert Permutation(2**64 - 1, 10**12).at(np.arange(2)).tolist() == [736039667745, 349589396746]


@pytest.mark.parametrize(("count", "keys"), [(2, 2000), (3, 3000), (5, 6000)])
def test_every_order_of_few_numbers_is_as_likely_as_any(count, keys):
    seen = dict.fromkeys(itertools.permutations(range(count)), 0)
    for key in range(keys):
        seen[tuple(Permutation(key, count).at(np.arange(count)).tolist())] += 1
    assert surprise(list(seen.values()), np.ones(len(seen))) < 4


@pytest.mark.parametrize("count", [1000, COMPUTED, 10**6, 10**12])
def test_at_each_place_every_number_is_as_likely_as_any(count):
    bins = 40
    places = np.array([0, 1, 2, count // 3, count - 2, count - 1])
    numbers = np.array([Permutation(key, count).at(places) for key in range(2000)])
    for column in (numbers * bins // count).T:
        assert surprise(np.bincount(column, minlength=bins), np.ones(bins)) < 4


@pytest.mark.parametrize("count", [1000, COMPUTED, 10**6, 10**12])
def test_two_places_tell_nothing_of_each_other(count):
    bins = 8
    places = np.array([0, 1, count // 2, count - 1])
    numbers = np.array([Permutation(key, count).at(places) for key in range(2000)]) * bins // count
    for one, other in itertools.combinations(numbers.T, 2):
        assert surprise(np.bincount(bins * one + other, minlength=bins**2), np.ones(bins**2)) < 4


@pytest.mark.parametrize("count", [COMPUTED, 100_003, 10**6])
def test_in_one_order_neighbours_tell_nothing_of_each_other(count):
    bins = 20
    order = Permutation(1, count).at(np.arange(min(count, 200_000))) * bins // count
    for apart in (1, 2, 128, 1000):
        pairs = bins * order[:-apart] + order[apart:]
        assert surprise(np.bincount(pairs, minlength=bins**2), np.ones(bins**2)) < 4


def test_numbers_stay_in_place_or_together_as_often_as_by_chance():
    """One number stays where it was, on average; two pairs of neighbours stay neighbours."""
    stayed = together = 0
    keys = 200
    for key in range(keys):
        order = Permutation(key, COMPUTED).at(np.arange(COMPUTED))
        stayed += np.count_nonzero(order == np.arange(COMPUTED))
        together += np.count_nonzero(np.abs(np.diff(order)) == 1)
    assert abs(stayed - keys) < 4 * keys**0.5
    assert abs(together - 2 * keys) < 4 * (2 * keys) ** 0.5

"""shuffle with a buffer: tf.data's law of chance, every element once, and a small and exact state."""

import contextlib
import gc
import itertools
import json
from random import Random

import numpy as np
import pytest

from feedline import Dataset, UsageError
from feedline.block import Block
from feedline.graph import Context
from feedline.iterator import DatasetIterator
from feedline.run import LocalServices
from feedline.testing import BLOCK_ROWS, check_errors, check_laws
from tests.chance import surprise
from tests.ops import oracle


def ints(dataset):
    return [int(x) for x in dataset]


def orders(dataset, count, rounds):
    """The orders of so many iterations."""
    return np.array(list(dataset.batch(count).repeat(rounds)))


# What comes


@pytest.mark.parametrize("count", [0, 1, 2, 20, 3000])
@pytest.mark.parametrize("buffer_size", [1, 2, 7, 20, 100, 5000])
def test_every_element_comes_once_and_none_earlier_than_the_buffer_allows(count, buffer_size):
    order = ints(Dataset.range(count).shuffle(buffer_size, seed=1))
    assert sorted(order) == list(range(count))
    assert all(number <= place + buffer_size - 1 for place, number in enumerate(order))


def test_a_buffer_of_one_changes_nothing():
    assert ints(Dataset.range(3000).shuffle(1)) == list(range(3000))


def test_an_infinite_input_is_shuffled_as_it_comes():
    order = ints(Dataset.range(10).repeat().shuffle(15, seed=1).take(100))
    assert all(abs(order.count(number) - 10) <= 3 for number in range(10))


# New orders, and the same ones


def test_each_iteration_has_another_order():
    numbers = Dataset.range(100).shuffle(50, seed=1)
    assert len({tuple(ints(numbers)) for _ in range(5)}) == 5


def test_each_round_of_a_repeat_has_another_order():
    numbers = Dataset.range(100).shuffle(50, seed=1).repeat(3)
    rounds = [ints(numbers)[at : at + 100] for at in (0, 100, 200)]
    assert all(sorted(one) == list(range(100)) for one in rounds)
    assert len(set(map(tuple, rounds))) == 3


def test_none_for_reshuffle_each_iteration_is_true_as_in_tf_data():
    numbers = Dataset.range(100).shuffle(50, 1, None)
    assert ints(numbers) != ints(numbers)


def test_the_order_stays_when_told_so():
    for seed in (1, None):
        numbers = Dataset.range(100).shuffle(50, seed, reshuffle_each_iteration=False)
        order = ints(numbers)
        assert ints(numbers) == order
        assert ints(numbers.repeat(2)) == order * 2


def test_a_seed_gives_the_same_orders_in_each_run():
    one, other, third = (Dataset.range(100).shuffle(50, seed) for seed in (5, 5, 6))
    first = [ints(one), ints(one)]
    assert first == [ints(other), ints(other)]
    assert ints(third) not in first


def test_without_a_seed_each_shuffle_is_its_own():
    assert len({tuple(ints(Dataset.range(100).shuffle(50))) for _ in range(5)}) == 5


def test_the_orders_stay_as_they_are():
    """Users go on with a saved state, or repeat a run from its seed, in later versions too."""
    assert ints(Dataset.range(10).shuffle(4, seed=7)) == [1, 0, 5, 6, 2, 3, 4, 7, 8, 9]


# Chance


def test_with_room_for_all_every_order_is_as_likely_as_any():
    seen = dict.fromkeys(itertools.permutations(range(4)), 0)
    for order in orders(Dataset.range(4).shuffle(4, seed=1), 4, 3000).tolist():
        seen[tuple(order)] += 1
    assert surprise(list(seen.values()), np.ones(24)) < 4


def test_over_seeds_every_first_element_is_as_likely_as_any():
    firsts = [int(next(iter(Dataset.range(30).shuffle(10, seed)))) for seed in range(1500)]
    assert surprise(np.bincount(firsts, minlength=10), np.ones(10)) < 4


def law(count, buffer_size):
    """The chance of each element at each place.

    An element enters the buffer as soon as there is room. From then on each draw takes it with a chance of
    1 : buffer_size. What is left when the input ends comes in any order.
    """
    chances = np.zeros((count, count))
    draining = max(0, count - buffer_size)
    for element in range(count):
        enters = max(0, element - buffer_size + 1)
        stays = 1 - 1 / buffer_size
        for place in range(enters, count):
            chances[place, element] = stays ** (min(place, draining) - enters) / min(buffer_size, count)
    return chances


@pytest.mark.parametrize(("count", "buffer_size"), [(12, 4), (9, 2), (8, 8)])
def test_each_element_comes_to_each_place_as_often_as_the_law_of_the_buffer_says(count, buffer_size):
    drawn = orders(Dataset.range(count).shuffle(buffer_size, seed=1), count, 1000)
    assert abs(law(count, buffer_size).sum(axis=1) - 1).max() < 1e-9
    for place, chances in enumerate(law(count, buffer_size)):
        assert surprise(*_gathered(np.bincount(drawn[:, place], minlength=count), chances * 1000)) < 4


def test_the_law_is_that_of_tf_data():
    tf = pytest.importorskip("tensorflow")
    theirs = tf.data.Dataset.range(12).shuffle(4, seed=1).batch(12).repeat(1000)
    drawn = np.array(list(theirs.as_numpy_iterator()))
    for place, chances in enumerate(law(12, 4)):
        assert surprise(*_gathered(np.bincount(drawn[:, place], minlength=12), chances * 1000)) < 4


def _gathered(counts, expected):
    """The cells that are expected to hold few are counted as one."""
    rare = (expected < 5) & (expected > 0)
    if expected[rare].sum() < 5:
        return counts[~rare], expected[~rare]
    return np.append(counts[~rare], counts[rare].sum()), np.append(expected[~rare], expected[rare].sum())


def test_neighbours_are_torn_apart():
    order = np.array(ints(Dataset.range(20_000).shuffle(5000, seed=1)))
    assert np.count_nonzero(np.diff(order) == 1) < 20


# Like tf.data


def test_specs_and_cardinalities_are_those_of_tf_data():
    tf = pytest.importorskip("tensorflow")
    for ours, theirs in (
        (Dataset.range(7), tf.data.Dataset.range(7)),
        (Dataset.range(7).repeat(), tf.data.Dataset.range(7).repeat()),
        (Dataset.range(7).filter(lambda x: x > 1), tf.data.Dataset.range(7).filter(lambda x: x > 1)),
        (Dataset.range(0), tf.data.Dataset.range(0)),
    ):
        assert ours.shuffle(3).cardinality() == theirs.shuffle(3).cardinality().numpy()
        assert ours.shuffle(3).element_spec == ours.element_spec


@pytest.mark.parametrize("buffer_size", [0, -1, -3, 1.5, "a"])
def test_what_tf_data_refuses_is_refused(buffer_size):
    tf = pytest.importorskip("tensorflow")
    with pytest.raises((tf.errors.InvalidArgumentError, TypeError, ValueError)):
        tf.data.Dataset.range(3).shuffle(buffer_size)
    with pytest.raises(UsageError, match="shuffle"):
        Dataset.range(3).shuffle(buffer_size)


@pytest.mark.parametrize(
    "arguments", [{"seed": 1.5}, {"seed": "a"}, {"seed": 2**63}, {"reshuffle_each_iteration": "no"}]
)
def test_other_bad_arguments_are_refused_at_once(arguments):
    with pytest.raises(UsageError, match=next(iter(arguments))):
        Dataset.range(5).shuffle(3, **arguments)


def test_a_cardinality_that_is_not_known_shuffles_all_as_in_tf_data():
    """So that `shuffle(dataset.cardinality())` always means the same."""
    tf = pytest.importorskip("tensorflow")
    assert sorted(tf.data.Dataset.range(9).shuffle(-2).as_numpy_iterator()) == list(range(9))
    odd = Dataset.range(3000).filter(lambda x: x % 2 == 1)
    order = ints(odd.shuffle(odd.cardinality(), seed=1))
    assert sorted(order) == list(range(1, 3000, 2))
    assert max(order[:100]) > 2500
    check_laws(lambda ds: ds.shuffle(-2, seed=1), Dataset.range(20).filter(lambda x: x != 3))


# The laws


@pytest.mark.parametrize("buffer_size", [1, 2, 3, 8, 29, 30, 31, 1000])
def test_it_obeys_the_laws_with_any_buffer(buffer_size):
    check_laws(lambda ds: ds.shuffle(buffer_size, seed=1), Dataset.range(30))


@pytest.mark.parametrize(
    "source",
    [
        Dataset.range(0),
        Dataset.range(1),
        Dataset.from_tensor_slices(np.arange(75.0).reshape(25, 3)),
        Dataset.from_tensor_slices([b"a", b"", b"ccc", b"dd"] * 6),
        Dataset.range(25).map(lambda x: np.arange(x % 5)),
        Dataset.range(25).map(lambda x: np.zeros((x % 2 + 1, x % 3))),
        Dataset.range(25).map(
            lambda x: {"a": (x, str(x).encode()), "b": None, "c": [np.float32(x)] * (x % 3)}
        ),
        Dataset.range(6).interleave(lambda i: Dataset.range(10 * i, 10 * i + i), 3),
        Dataset.range(4).flat_map(lambda i: Dataset.range(i + 3).map(lambda j: np.arange(j))),
        Dataset.range(40).filter(lambda x: x % 3 != 0),
        Dataset.range(9).repeat(),
        Dataset.range(30).batch(4),
        Dataset.range(30).prefetch(4),
        Dataset.range(30).shuffle(4, seed=9),
        Dataset.range(12).shuffle(5, seed=9).repeat(2),
    ],
)
def test_it_obeys_the_laws_over_any_input(source):
    check_laws(lambda ds: ds.shuffle(6, seed=1), source, most=30, whole_spec=False)


@pytest.mark.parametrize(
    "then",
    [
        lambda ds: ds.batch(4),
        lambda ds: ds.repeat(2),
        lambda ds: ds.take(7),
        lambda ds: ds.shard(2, 1),
        lambda ds: ds.interleave(lambda x: Dataset.range(x, x + 2), 3),
        lambda ds: Dataset.zip(ds, ds),
    ],
)
def test_it_obeys_the_laws_with_steps_behind_it(then):
    check_laws(lambda ds: then(ds.shuffle(5, seed=1)), Dataset.range(15), most=30)


# State


def resumed(dataset, state, block_rows=Context.block_rows):
    state = json.loads(json.dumps(state))
    one = DatasetIterator(dataset._node, Context(LocalServices(), block_rows=block_rows), lambda epoch: None)
    one.load_state_dict(state)
    return one


@pytest.mark.parametrize(
    "then",
    [
        lambda ds: ds,
        lambda ds: ds.map(lambda x: x),
        lambda ds: ds.map(lambda x: x, num_parallel_calls=2, executor="thread"),
        lambda ds: ds.prefetch(2),
        lambda ds: ds.batch(8).prefetch(2).unbatch(),
    ],
    ids=["alone", "map", "parallel map", "prefetch", "batch and prefetch"],
)
@pytest.mark.parametrize(("count", "buffer_size"), [(120, 100), (101, 100), (100, 100), (300, 200)])
def test_nothing_is_lost_when_the_end_was_seen_ahead_of_the_draws(count, buffer_size, then):
    def made():
        return then(Dataset.range(count).shuffle(buffer_size, seed=1))

    whole = ints(made())
    for taken in (*range(0, 40, 3), *range(40, count, 17)):
        with iter(made()) as one:
            assert ints(itertools.islice(one, taken)) == whole[:taken]
            state = one.state_dict()
        assert ints(resumed(made(), state)) == whole[taken:], taken


def each_event(elements):
    """Elements and, in their places, errors."""
    while True:
        try:
            yield int(next(elements))
        except StopIteration:
            return
        except ValueError as error:
            yield str(error)


@pytest.mark.parametrize("seed", range(60))
def test_chains_are_resumed_exactly_with_elements_that_fail_before_the_shuffle(seed):
    random = Random(seed)
    count = random.choice([5, 30, 101, 150, 260])
    buffer_size = random.choice([1, 2, 7, 50, 100, 120, count, count + 1])
    bad = set(random.sample(range(count), random.choice([0, 1, 2, 4])))
    then = random.choice(
        [
            lambda ds: ds,
            lambda ds: ds.map(lambda x: x),
            lambda ds: ds.map(lambda x: x, num_parallel_calls=2, executor="thread"),
            lambda ds: ds.prefetch(2),
            lambda ds: ds.shuffle(9, seed=4),
        ]
    )

    def fails_if_bad(x):
        if int(x) in bad:
            raise ValueError(f"element {x}")
        return x

    def made():
        return then(Dataset.range(count).map(fails_if_bad).shuffle(buffer_size, seed=3))

    whole = list(each_event(iter(made())))
    assert len(whole) == count
    for taken in random.sample(range(count + 1), 6):
        with iter(made()) as one:
            assert list(itertools.islice(each_event(one), taken)) == whole[:taken]
            state = one.state_dict()
        assert list(each_event(resumed(made(), state))) == whole[taken:], (count, buffer_size, bad, taken)


def test_a_drawn_seed_goes_with_the_state():
    """Another process draws another seed; an order that was begun is finished all the same."""
    first = iter(Dataset.range(100).shuffle(20))
    taken = [int(next(first)) for _ in range(50)]
    rest = ints(resumed(Dataset.range(100).shuffle(20), first.state_dict()))
    assert sorted(taken + rest) == list(range(100))
    assert rest == ints(first)


@pytest.mark.parametrize(("buffer_size", "batches"), [(1, 300), (10, 300), (1000, 1), (1000, 300)])
def test_the_state_is_small_and_exact_after_many_draws(buffer_size, batches):
    dataset = Dataset.range(400_000).shuffle(buffer_size, seed=1).batch(1000)
    first = iter(dataset)
    seen = np.concatenate([next(first) for _ in range(batches)])
    state = first.state_dict()
    assert len(json.dumps(state)) < 400
    rest = np.concatenate(list(resumed(dataset, state)))
    np.testing.assert_array_equal(rest, np.concatenate(list(first)))
    np.testing.assert_array_equal(np.sort(np.concatenate([seen, rest])), np.arange(400_000))


def test_a_resumed_iterator_can_be_resumed_again_and_again():
    dataset = Dataset.range(20_000).shuffle(30, seed=1)
    whole = ints(dataset)
    dataset = Dataset.range(20_000).shuffle(30, seed=1)
    one, found = iter(dataset), []
    for number in range(40):
        found += ints(itertools.islice(one, 10 if number % 2 else 900))
        one = resumed(dataset, one.state_dict(), block_rows=(1024, 7)[number % 2])
    assert found + ints(one) == whole


def test_a_state_at_the_end_stays_at_the_end():
    dataset = Dataset.range(5).shuffle(3, seed=1)
    one = iter(dataset)
    assert len(ints(one)) == 5
    for _ in range(3):
        one = resumed(dataset, one.state_dict())
        assert ints(one) == []


def test_an_input_that_lost_elements_is_noticed():
    data = list(range(80_000))
    dataset = Dataset.range(1).flat_map(lambda _: Dataset.from_tensor_slices(np.array(data)))
    first = iter(dataset.shuffle(1500, seed=1))
    assert len(ints(itertools.islice(first, 50_000))) == 50_000
    state = first.state_dict()
    del data[100:]
    with pytest.raises(UsageError, match="fewer elements"):
        resumed(dataset.shuffle(1500, seed=1), state)


# Elements that fail


def picky(bad):
    def function(x):
        if int(x) in bad:
            raise ValueError(f"no {x}")
        return x

    return function


def events(iterator):
    found = []
    while True:
        try:
            found.append(int(next(iterator)))
        except StopIteration:
            return found
        except ValueError as error:
            found.append(str(error))


FAILING = [{0, 1}, {5}, {17, 18, 19}, set(range(20)), {2, 6, 7, 8, 11}]


@pytest.mark.parametrize("bad", FAILING)
@pytest.mark.parametrize("buffer_size", [1, 5, 30])
def test_an_element_that_fails_is_raised_once_whatever_the_size_of_blocks(bad, buffer_size):
    dataset = Dataset.range(20).map(picky(bad)).shuffle(buffer_size, seed=1)
    wanted = None
    for rows in BLOCK_ROWS:
        one = DatasetIterator(dataset._node, Context(LocalServices(), block_rows=rows), lambda epoch: None)
        found = events(one)
        assert sorted(map(str, found)) == sorted(f"no {x}" if x in bad else str(x) for x in range(20))
        wanted = wanted or found
        assert found == wanted


@pytest.mark.parametrize("bad", FAILING)
@pytest.mark.parametrize("buffer_size", [1, 5, 30])
@pytest.mark.parametrize("block_rows", [2, 1024])
def test_what_was_raised_is_not_raised_again_after_resuming(bad, buffer_size, block_rows):
    dataset = Dataset.range(20).map(picky(bad)).shuffle(buffer_size, seed=1)

    def begin():
        context = Context(LocalServices(), block_rows=block_rows)
        return DatasetIterator(dataset._node, context, lambda epoch: None)

    wanted = events(begin())
    one = begin()
    for passed in range(len(wanted) + 1):
        again = resumed(dataset, one.state_dict(), block_rows)
        twice = resumed(dataset, again.state_dict(), block_rows)
        assert events(again) == wanted[passed:]
        assert events(twice) == wanted[passed:]
        if passed < len(wanted):
            with contextlib.suppress(ValueError):
                next(one)


def test_failures_are_counted_only_as_far_as_they_are_read_again():
    """With many failures over a long run, the state is still that of the last ones."""
    bad = set(range(0, 40_000, 7))
    dataset = Dataset.range(40_000).map(picky(bad)).shuffle(10, seed=1)
    one = iter(dataset)
    for _ in range(39_000):
        with contextlib.suppress(ValueError):
            next(one)
    state = one.state_dict()
    assert state["position"][0][5] < 3000
    assert events(resumed(dataset, state)) == events(one)


@pytest.mark.parametrize("buffer_size", [1, 3, 9, 10, 11, 30])
def test_errors_come_after_as_many_elements_as_in_tf_data(buffer_size):
    ours = check_errors(lambda ds: ds.shuffle(buffer_size, seed=1), Dataset.range(14))
    theirs = oracle.events(oracle.failing_range(14).shuffle(buffer_size, seed=1).as_numpy_iterator())
    assert [event[0] for event in ours] == [event[0] for event in theirs]


def test_no_more_is_read_for_the_first_element_than_the_buffer_holds():
    called = []
    numbers = Dataset.range(50).map(lambda x: called.append(x) or x).shuffle(7)
    assert Context(LocalServices()).open(numbers._node).next(1).rows == 1
    assert len(called) == 7


# Memory


def held_bytes():
    """Of all arrays in blocks, each counted once."""
    blocks = [one for one in gc.get_objects() if isinstance(one, Block) and one._picks is None]
    arrays = [column for one in blocks for column in one.columns if isinstance(column, np.ndarray)]
    owners = [one.base if isinstance(one.base, np.ndarray) else one for one in arrays]
    return sum({id(one): one.nbytes for one in owners}.values())


@pytest.mark.parametrize("buffer_size", [1, 16])
def test_a_small_buffer_over_large_rows_holds_few_of_them(buffer_size):
    row = 4096
    rows = Dataset.range(8000).map(lambda x: np.full(row // 8, x)).shuffle(buffer_size, seed=1)
    context = Context(LocalServices(), block_bytes=4 * row)  # as if rows were very large
    before, most = held_bytes(), 0
    for count, _ in enumerate(DatasetIterator(rows._node, context, lambda epoch: None)):
        if count % 1000 == 900:
            most = max(most, held_bytes() - before)
    assert count == 7999
    assert most < (3 * buffer_size + 400) * row


def test_rows_that_are_read_one_by_one_are_not_held_one_by_one():
    """Interleave takes the elements of its input singly."""
    opened = Dataset.range(30_000).shuffle(1000, seed=1).interleave(lambda x: Dataset.range(x, x + 1), 2)
    before = blocks_alive()
    most = 0
    for count, _ in enumerate(opened.take(3000)):
        if count % 1000 == 999:
            most = max(most, blocks_alive())
    assert most < before + 100


def blocks_alive():
    return sum(isinstance(one, Block) for one in gc.get_objects())

"""shuffle without a buffer: every element of an indexed dataset, in any order, in no memory."""

import json
import tracemalloc

import numpy as np
import pytest

from feedline import Dataset, UsageError
from feedline.graph import Context
from feedline.run import LocalServices
from feedline.testing import assert_same, check_laws
from tests.chance import surprise

MANY = 50_000  # more than are shuffled outright


def ints(dataset):
    return [int(x) for x in dataset]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 100, 1025, MANY])
def test_every_element_comes_once(count):
    order = ints(Dataset.range(count).shuffle(seed=1))
    assert sorted(order) == list(range(count))
    assert count < 10 or order != list(range(count))


def test_each_iteration_has_another_order():
    numbers = Dataset.range(100).shuffle(seed=1)
    orders = [tuple(ints(numbers)) for _ in range(5)]
    assert len(set(orders)) == 5


def test_each_round_of_a_repeat_has_another_order():
    numbers = Dataset.range(100).shuffle(seed=1).repeat(3)
    rounds = np.array(ints(numbers)).reshape(3, 100)
    assert len(set(map(tuple, rounds.tolist()))) == 3
    assert all(sorted(one) == list(range(100)) for one in rounds.tolist())
    again = np.array(ints(numbers)).reshape(3, 100)
    assert len(set(map(tuple, [*rounds.tolist(), *again.tolist()]))) == 6


def test_the_order_stays_when_told_so():
    numbers = Dataset.range(100).shuffle(seed=1, reshuffle_each_iteration=False)
    assert ints(numbers) == ints(numbers)
    rounds = np.array(ints(numbers.repeat(2))).reshape(2, 100)
    assert rounds[0].tolist() == rounds[1].tolist() == ints(numbers)
    unseeded = Dataset.range(100).shuffle(reshuffle_each_iteration=False)
    assert ints(unseeded) == ints(unseeded)


def test_a_seed_gives_the_same_orders_in_each_run():
    one, other = (Dataset.range(100).shuffle(seed=5) for _ in range(2))
    assert [ints(one), ints(one)] == [ints(other), ints(other)]
    assert ints(Dataset.range(100).shuffle(seed=6)) != ints(Dataset.range(100).shuffle(seed=5))


def test_without_a_seed_each_shuffle_is_its_own():
    orders = {tuple(ints(Dataset.range(100).shuffle())) for _ in range(5)}
    assert len(orders) == 5


def test_two_shuffles_after_one_another_are_still_one_order():
    assert sorted(ints(Dataset.range(MANY).shuffle(seed=1).shuffle(seed=1))) == list(range(MANY))


@pytest.mark.parametrize("count", [40, MANY])
def test_by_index_it_is_the_order_of_the_first_iteration(count):
    numbers = Dataset.range(count).shuffle(seed=3)
    order = ints(numbers)
    assert [int(numbers[i]) for i in (0, 1, 7, -1)] == [order[i] for i in (0, 1, 7, -1)]
    assert ints(numbers[5:30:2]) == order[5:30:2]
    assert len(numbers) == count


@pytest.mark.parametrize(
    "source",
    [
        Dataset.range(0),
        Dataset.range(1),
        Dataset.range(30),
        Dataset.from_tensor_slices(np.arange(60.0).reshape(20, 3)),
        Dataset.from_tensor_slices({"s": ["a", "", "ccc"] * 5, "n": (np.arange(15), np.arange(15) % 2 == 0)}),
        Dataset.range(20).map(lambda x: np.arange(x % 4)),
        Dataset.range(10).batch(3),
        Dataset.zip(Dataset.range(12), Dataset.range(100, 120)),
        Dataset.range(7).concatenate(Dataset.range(50, 60)),
    ],
)
def test_it_obeys_the_laws(source):
    check_laws(lambda ds: ds.shuffle(seed=2), source)


@pytest.mark.parametrize(
    "then",
    [
        lambda ds: ds.batch(4),
        lambda ds: ds.map(lambda x: -x),
        lambda ds: ds.repeat(3),
        lambda ds: ds.repeat(),
        lambda ds: ds.shard(3, 1),
        lambda ds: ds.skip(5).take(9),
        lambda ds: ds.shuffle(seed=9),
        lambda ds: ds.shuffle(4, seed=9),
        lambda ds: ds.prefetch(5),
        lambda ds: ds[3:15:2],
        lambda ds: ds.repeat(2).shuffle(seed=1),
    ],
)
def test_it_obeys_the_laws_with_steps_behind_it(then):
    check_laws(lambda ds: then(ds.shuffle(seed=2)), Dataset.range(19), most=40)


@pytest.mark.parametrize("count", [30, MANY])
def test_a_drawn_seed_goes_with_the_state(count):
    """Another process draws another seed; an order that was begun is finished all the same."""
    first = iter(Dataset.range(count).shuffle().repeat(2))
    taken = [int(next(first)) for _ in range(21)]
    state = json.loads(json.dumps(first.state_dict()))
    assert len(json.dumps(state)) < 300
    second = iter(Dataset.range(count).shuffle().repeat(2))
    second.load_state_dict(state)
    rest = [int(next(second)) for _ in range(count - 21)]
    assert sorted(taken + rest) == list(range(count))
    assert rest == [int(next(first)) for _ in range(count - 21)]


def test_no_memory_is_spent_on_the_order():
    tracemalloc.start()
    try:
        assert len(set(ints(Dataset.range(10**12).shuffle(seed=1).take(5000)))) == 5000
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


def test_a_dataset_without_index_is_refused_by_the_name_of_the_step():
    odd = Dataset.range(5).filter(lambda x: x % 2 == 1).map(lambda x: x)
    with pytest.raises(UsageError, match=r"filter, added at .*test_global_shuffle\.py:\d+") as caught:
        odd.shuffle()
    assert "shuffle(10_000)" in str(caught.value)
    with pytest.raises(UsageError, match="repeat, added at"):
        Dataset.range(5).repeat().shuffle(seed=1)


@pytest.mark.parametrize(
    "arguments", [{"seed": 1.5}, {"seed": "a"}, {"seed": 2**63}, {"reshuffle_each_iteration": 3}]
)
def test_bad_arguments_are_refused_at_once(arguments):
    with pytest.raises(UsageError, match=next(iter(arguments))):
        Dataset.range(5).shuffle(**arguments)


def test_elements_that_fail_are_passed_and_nothing_else():
    def picky(x):
        if x % 10 == 3:
            raise ValueError(f"no {x}")
        return x

    numbers = iter(Dataset.range(100).map(picky).shuffle(seed=1))
    given, failed = [], []
    while True:
        try:
            given.append(int(next(numbers)))
        except StopIteration:
            break
        except ValueError as error:
            failed.append(str(error))
    assert sorted(given) == [x for x in range(100) if x % 10 != 3]
    assert sorted(failed) == sorted(f"no {x}" for x in range(3, 100, 10))


def test_the_first_elements_do_not_wait_for_a_whole_block():
    called = []
    numbers = iter(Dataset.range(5000).map(lambda x: called.append(x) or x).shuffle(seed=1))
    next(numbers)
    assert len(called) <= 16
    assert len(list(numbers)) == 4999


def test_blocks_of_large_rows_have_few():
    node = Dataset.from_tensor_slices(np.zeros((400, 25_000), np.float32)).shuffle(seed=1)._node
    stream = Context(LocalServices(), block_bytes=1 << 20).open(node)
    sizes = []
    while (block := stream.next(1024)) is not None:
        sizes.append(block.rows)
    assert sum(sizes) == 400
    assert max(sizes) == sizes[0] == 16
    assert max(sizes[1:]) <= 10


def test_each_element_is_as_likely_first_or_last_as_any():
    rounds = 3000
    orders = np.array([batch for batch in Dataset.range(12).shuffle(seed=4).batch(12).repeat(rounds)])
    for column in (0, 1, 5, 11):
        assert surprise(np.bincount(orders[:, column], minlength=12), np.ones(12)) < 4
    pairs = 12 * orders[:, 0] + orders[:, 1]
    expected = 1 - np.eye(12)
    assert surprise(np.bincount(pairs, minlength=144), expected) < 4


def test_it_is_what_tf_data_calls_a_full_shuffle():
    tf = pytest.importorskip("tensorflow")
    theirs = tf.data.Dataset.range(50).shuffle(50, seed=1)
    ours = Dataset.range(50).shuffle(seed=1)
    assert sorted(ints(ours)) == sorted(theirs.as_numpy_iterator())
    assert ours.cardinality() == theirs.cardinality().numpy()
    assert_same([np.int64(3)], [next(iter(Dataset.range(3, 4).shuffle()))])
    assert ours.element_spec == Dataset.range(50).element_spec

"""cache: what is computed when, and that it is the same for everybody."""

from __future__ import annotations

import gc
import json
import threading
import weakref
from itertools import islice

import cloudpickle
import numpy as np
import pytest

from feedline import Dataset, Ragged, UsageError
from feedline.testing import Failed, assert_same, check_errors, check_laws
from tests.ops.counted import Counted
from tests.ops.sources import every_source
from tests.tfdata import both, tensorflow


def ints(dataset):
    return [int(x) for x in dataset]


def streamed(count):
    return Dataset.range(count).filter(lambda x: True)


@every_source
def test_it_obeys_the_laws(source):
    check_laws(lambda ds: ds.cache(), source)


@every_source
def test_what_is_cached_obeys_the_laws(source):
    cached = source.cache()
    elements = list(cached)
    assert_same(check_laws(lambda ds: ds, cached), elements)
    assert_same(source, elements)


def test_the_example_of_tf_datas_documentation():
    squares = lambda D: D.range(5).map(lambda x: x**2).cache()  # noqa: E731
    both(squares)
    both(lambda D: squares(D).repeat(2))


def test_values_order_spec_and_cardinality_are_those_of_tf_data():
    both(lambda D: D.range(7).batch(2).cache())
    both(lambda D: D.range(7).cache().batch(2).cache().repeat(3))
    both(lambda D: D.range(0).cache().repeat(2))
    both(lambda D: D.from_tensor_slices({"a": [1, 2], "b": ["x", "yy"]}).cache())
    both(lambda D: D.range(5).repeat().cache().take(12))


@pytest.mark.parametrize("source", [Dataset.range(100), streamed(100)], ids=["indexed", "streamed"])
def test_elements_are_computed_once(source):
    function = Counted()
    cached = source.map(function).cache()
    for _ in range(3):
        assert ints(cached) == list(range(100))
    assert function.calls == 100
    assert ints(cached.repeat(2)) == 2 * list(range(100))
    assert ints(cached.map(lambda x: x + 1)) == list(range(1, 101))
    assert function.calls == 100


def test_also_in_the_rounds_of_a_repeat():
    function = Counted()
    assert ints(streamed(10).map(function).cache().repeat(3)) == 3 * list(range(10))
    assert function.calls == 10


def test_a_random_input_is_the_same_in_each_iteration_as_in_tf_data():
    for D in (Dataset, tensorflow().data.Dataset):
        cached = D.range(50).shuffle(50).cache()
        first, second = (list(cached.as_numpy_iterator()) for _ in range(2))
        assert first == second != sorted(first)
        rounds = list(cached.repeat(2).as_numpy_iterator())
        assert rounds == 2 * first
    both_rounds = ints(Dataset.range(50).shuffle(50).cache().repeat(2))
    assert both_rounds[:50] == both_rounds[50:]


def test_an_iteration_that_was_stopped_leaves_nothing_behind():
    cached = streamed(3000).map(lambda x: np.random.default_rng().integers(1 << 60)).cache()
    part = list(islice(cached, 2000))
    whole = list(cached)
    assert part != whole[:2000]  # it was random again
    assert list(cached) == whole


def test_the_end_need_not_be_seen_where_the_number_of_elements_is_known():
    function = Counted()
    cached = Dataset.range(20).map(function).cache()
    for _ in range(2):
        assert ints(cached.take(20)) == list(range(20))
    assert function.calls == 20


def test_iterations_at_the_same_time_each_see_their_own_pass_and_the_first_to_end_is_kept():
    cached = streamed(3000).map(lambda x: np.random.default_rng().integers(1 << 60)).cache()
    one, other = iter(cached), iter(cached)
    first = list(islice(one, 1500))
    second = list(other)
    first += one
    assert len(first) == len(second) == 3000
    assert not set(first) & set(second)
    assert list(cached) == second
    assert list(cached) == second


def test_the_same_cache_twice_in_a_zip():
    function = Counted()
    cached = streamed(10).map(function).cache()
    pairs = Dataset.zip(cached, cached)
    for _ in range(2):
        assert [(int(a), int(b)) for a, b in pairs] == [(i, i) for i in range(10)]
    assert function.calls == 20


def test_threads_may_share_a_cache():
    cached = streamed(5000).map(lambda x: np.full(3, x)).cache()
    by_index = Dataset.range(500).map(lambda x: np.full(3, x)).cache()
    errors = []

    def work(seed):
        try:
            order = np.random.default_rng(seed).permutation(500)
            for _ in range(2):
                assert [int(x[0]) for x in cached] == list(range(5000))
                assert all(by_index[int(i)].tolist() == [i] * 3 for i in order)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def test_arrays_are_read_only_in_every_iteration():
    def element(x):
        return {"array": np.ones(2), "changing": np.ones(x % 3), "ragged": Ragged(np.ones(2), [0, 2])}

    cached = Dataset.range(9).map(element).cache()
    for _ in range(2):
        for found in cached:
            for array in (found["array"], found["changing"], found["ragged"].values):
                with pytest.raises(ValueError, match="read-only"):
                    array[:] = 5
    ranks = Dataset.range(4).map(lambda x: np.ones((2,) * (x % 2 + 1))).cache()
    for _ in range(2):
        assert not any(found.flags.writeable for found in ranks)


def test_by_index_each_element_is_computed_when_it_is_first_asked_for():
    function = Counted(lambda x: x * x)
    cached = Dataset.range(50).map(function).cache()
    assert [cached[7], cached[-1], cached[7]] == [49, 49 * 49, 49]
    assert function.calls == 2
    for _ in range(2):
        assert sorted(ints(cached.shuffle(seed=1))) == [x * x for x in range(50)]
    assert function.calls == 50
    assert ints(cached) == [x * x for x in range(50)]  # in order, from what was asked for
    assert function.calls == 50


def test_after_an_iteration_elements_by_index_are_read():
    function = Counted()
    cached = Dataset.range(3000).map(function).cache()
    list(cached)
    assert [cached[0], cached[1024], cached[-1]] == [0, 1024, 2999]
    assert ints(cached[2900:100:-1000]) == [2900, 1900, 900]
    assert function.calls == 3000


def test_an_element_that_fails_is_tried_again_and_nothing_is_kept_until_all_succeed():
    broken = [True]

    def function(x):
        if x == 3 and broken[0]:
            raise Failed("broken")
        return x

    counted = Counted(function)
    cached = Dataset.range(6).map(counted).cache()
    for _ in range(2):
        with pytest.raises(Failed):
            list(cached)
        assert ints(cached.ignore_errors()) == [0, 1, 2, 4, 5]
    broken[0] = False
    assert ints(cached) == list(range(6))
    counted.calls = 0
    assert ints(cached) == list(range(6))
    assert counted.calls == 0


def test_errors_come_in_their_places():
    check_errors(lambda ds: ds.cache(), Dataset.range(12))


def test_a_pickled_dataset_has_no_cache_with_it():
    function = Counted(lambda x: np.zeros(10_000))
    cached = Dataset.range(20).map(function).cache()
    list(cached)
    packed = cloudpickle.dumps(cached)
    assert len(packed) < 50_000
    assert len(list(cloudpickle.loads(packed))) == 20


def test_a_state_is_true_in_a_process_that_has_no_cache():
    def made():
        return streamed(40).shuffle(40).cache().repeat(2)

    here = made()
    for begin in (0, 13, 40, 53):  # in the iteration that fills the cache, and in the one that reads it
        elements = iter(here)
        list(islice(elements, begin))
        state = json.loads(json.dumps(elements.state_dict()))
        assert len(json.dumps(state)) < 400
        rest = list(elements)
        elsewhere = iter(made())  # where another seed is drawn
        elsewhere.load_state_dict(state)
        assert list(elsewhere) == rest
        again = iter(here)
        again.load_state_dict(state)
        assert list(again) == rest


def test_an_iteration_that_was_begun_elsewhere_does_not_read_what_is_cached_here():
    def made():
        return Dataset.range(40).shuffle().cache().repeat(3)  # by index, too

    elements = iter(made())
    begun = ints(islice(elements, 13))
    state = json.loads(json.dumps(elements.state_dict()))
    here = made()
    list(here)  # in another order, as another seed was drawn
    resumed = iter(here)
    resumed.load_state_dict(state)
    rest = ints(resumed)
    assert rest == ints(elements)
    whole = begun + rest
    assert whole[:40] == whole[40:80] == whole[80:]


def test_an_iteration_that_was_resumed_fills_the_cache():
    function = Counted()
    cached = streamed(20).map(function).cache()
    elements = iter(cached)
    list(islice(elements, 5))
    resumed = iter(cached)
    resumed.load_state_dict(elements.state_dict())
    assert ints(resumed) == list(range(5, 20))
    function.calls = 0
    assert ints(cached) == list(range(20))
    assert function.calls == 0


def test_a_state_beyond_the_end_is_refused():
    size = [3000]
    cached = Dataset.from_generator(lambda: range(size[0])).cache()
    elements = iter(cached)
    list(islice(elements, 2500))
    state = elements.state_dict()
    size[0] = 5
    elements.load_state_dict(state)
    with pytest.raises(UsageError, match="fewer elements than when the state was taken"):
        list(elements)


def test_looking_at_the_spec_fills_nothing():
    function = Counted(lambda x: x.astype(np.float32))
    cached = streamed(20).map(function).cache()
    assert cached.element_spec.dtype == np.float32
    assert cached._node.memory.kept is None
    assert len(list(cached)) == 20


def test_small_blocks_are_joined():
    cached = streamed(2000).map(lambda x: x).cache()
    for element in cached.batch(1):
        assert element.shape == (1,)
    assert len(cached._node.memory.kept._blocks) <= 2


def test_the_memory_goes_with_the_dataset():
    cached = Dataset.range(10).map(lambda x: np.zeros(3)).cache()
    list(cached)
    kept = weakref.ref(cached._node.memory.kept)
    del cached
    gc.collect()
    assert kept() is None

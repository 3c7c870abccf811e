"""filter."""

import gc
import time
from weakref import ref

import numpy as np
import pytest

from feedline import Dataset, UsageError
from feedline.testing import check_errors, check_laws
from tests.ops.sources import every_source
from tests.tfdata import both, both_refuse

PIPELINES = {
    # tf.data's own examples
    "less than 3": lambda D: D.from_tensor_slices([1, 2, 3]).filter(lambda x: x < 3),
    "equal to 1": lambda D: D.from_tensor_slices([1, 2, 3]).filter(lambda x: x == 1),
    "all": lambda D: D.range(5).filter(lambda x: True),
    "none": lambda D: D.range(5).filter(lambda x: False),
    "pairs": lambda D: D.from_tensor_slices(([1, 2], [2, 1])).filter(lambda x, y: x < y),
    "a dict": lambda D: D.from_tensor_slices({"a": [1, 2]}).filter(lambda d: d["a"] == 2),
    "of nothing": lambda D: D.range(0).filter(lambda x: True),
    "of infinity": lambda D: D.range(4).repeat().filter(lambda x: x % 2 == 1),
    "of the unknown": lambda D: D.range(20).filter(lambda x: x % 2 == 1).filter(lambda x: x % 3 == 1),
    "many": lambda D: D.range(5000).filter(lambda x: x % 700 == 3).batch(3),
}


@pytest.mark.parametrize("pipeline", PIPELINES.values(), ids=PIPELINES.keys())
def test_filter_keeps_what_tf_data_keeps(pipeline):
    both(pipeline, most=20)


@every_source
def test_filter_obeys_the_laws(source):
    numbered = source.enumerate()
    check_laws(lambda ds: ds.filter(lambda n, x: n % 3 != 1), numbered)
    check_laws(lambda ds: ds.filter(lambda n, x: True), numbered)


def test_errors_come_in_their_place():
    check_errors(lambda ds: ds.filter(lambda x: x % 2 == 0), Dataset.range(12))


def test_an_error_of_the_predicate_comes_in_its_place():
    def odd(x):
        if x in (2, 6):
            raise KeyError(x)
        return x % 2 == 1

    rows = iter(Dataset.range(9).filter(odd))
    assert next(rows) == 1
    with pytest.raises(KeyError):
        next(rows)
    assert [next(rows), next(rows)] == [3, 5]
    with pytest.raises(KeyError):
        next(rows)
    assert list(rows) == [7]


def test_the_predicate_is_asked_once_for_each_element_also_for_one_that_fails():
    asked = []

    def odd(x):
        asked.append(int(x))
        if x == 4:
            raise KeyError(x)
        return x % 2 == 1

    rows = iter(Dataset.range(8).filter(odd))
    assert [next(rows), next(rows)] == [1, 3]
    with pytest.raises(KeyError):
        next(rows)
    assert list(rows) == [5, 7]
    assert asked == list(range(8))


def test_an_error_that_is_held_back_does_not_keep_a_closed_stream():
    def odd(x):
        if x == 4:
            raise KeyError(x)
        return x % 2 == 1

    gc.collect()
    gc.disable()
    try:
        rows = iter(Dataset.range(8).filter(odd))
        assert next(rows) == 1
        stream = ref(rows._cursor._stream)
        rows.close()
        assert stream() is None
    finally:
        gc.enable()


def test_results_do_not_wait_for_slow_ones():
    calls = []

    def slow(x):
        calls.append(x)
        if x >= 2:
            time.sleep(0.5)
        return True

    assert next(iter(Dataset.range(100).filter(slow))) == 0
    assert len(calls) < 10


@pytest.mark.parametrize("answer", [np.bool_(True), np.array(True), True])
def test_the_answer_may_be_any_true_or_false(answer):
    assert list(Dataset.range(2).filter(lambda x: answer)) == [0, 1]


@pytest.mark.parametrize("answer", [1, None, "yes", np.array([True]), np.int64(1), 1.0])
def test_other_answers_are_refused(answer):
    both_refuse(lambda D: list(D.range(2).filter(lambda x: answer)))
    with pytest.raises(UsageError) as caught:
        list(Dataset.range(2).filter(lambda x: answer))
    assert str(caught.value) == (
        f"filter: the predicate must return True or False, not {type(answer).__name__}.\n"
        "  Of an array, say which you mean: .any() or .all()."
    )


@pytest.mark.parametrize("function", [None, True])
def test_filter_wants_a_function(function):
    both_refuse(lambda D: D.range(3).filter(function))
    with pytest.raises(UsageError, match=r"^filter\((None|True)\): give a function of one element, not "):
        Dataset.range(3).filter(function)

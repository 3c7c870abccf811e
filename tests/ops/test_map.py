"""map."""

from __future__ import annotations

import enum
import time
from collections import namedtuple

import numpy as np
import pytest

from feedline import Dataset, Ragged, UsageError
from feedline.testing import assert_same, check_errors, check_laws, same
from tests.ops.sources import Point, every_source
from tests.tfdata import both, both_refuse, tensorflow

PIPELINES = {
    # tf.data's own examples
    "one component": lambda D: D.range(1, 6).map(lambda x: x + 1),
    "a list of tuples": lambda D: D.from_tensor_slices(([1, 2, 3], [4, 5, 6])).map(lambda x, y: x + y),
    "a dict": lambda D: D.from_tensor_slices({"a": [1, 2], "b": [3, 4]}).map(lambda d: d["a"] * d["b"]),
    "several results": lambda D: D.range(3).map(lambda x: (x, 2 * x)),
    "a dict of results": lambda D: D.range(3).map(lambda x: {"x": x, "y": {"z": (x, x)}}),
    "a constant": lambda D: D.range(3).map(lambda x: 37.0),
    "constants of each kind": lambda D: D.range(2).map(lambda x: (1, 2.5, "text", True, b"\0")),
    "a list is one array": lambda D: D.range(2).map(lambda x: (37.0, ["Foo", "Bar"], x)),
    "a NumPy array": lambda D: D.range(2).map(lambda x: np.array([1.5, 2.5])),
    # what else there is
    "a pair as one argument": lambda D: D.range(3).map(lambda x: ((x, x),)).map(lambda pair: pair[0]),
    "a namedtuple is one argument": lambda D: D.from_tensor_slices(Point([1, 2], [3, 4])).map(lambda p: p.x),
    "any number of arguments": lambda D: D.range(3).map(lambda x: (x, x, x)).map(lambda *args: args[1:]),
    "None": lambda D: D.range(2).map(lambda x: (x, None)).map(lambda x, none: {"a": none, "b": x}),
    "batches": lambda D: D.range(7).batch(3).map(lambda x: x * x),
    "nothing": lambda D: D.range(0).map(lambda x: x + 1),
    "for ever": lambda D: D.range(2).repeat().map(lambda x: x + 1).take(5),
    "unknown": lambda D: D.range(9).filter(lambda x: x > 5).map(lambda x: x + 1),
}


@pytest.mark.parametrize("pipeline", PIPELINES.values(), ids=PIPELINES.keys())
@pytest.mark.parametrize("parallel", [{}, {"num_parallel_calls": 2}], ids=["", "parallel"])
def test_map_gives_what_tf_data_gives(pipeline, parallel):
    both(pipeline)
    if parallel:
        both(lambda D: pipeline(D).map(lambda *x: x, num_parallel_calls=2, deterministic=True))


@every_source
def test_map_obeys_the_laws(source):
    check_laws(lambda ds: ds.map(lambda *x: {"all": x}), source)


def test_results_of_changing_shapes_obey_the_laws():
    def ragged(i):
        return {
            "ragged": Ragged(np.arange(i), [0, 0, i]),
            "length": np.ones(i),
            "rank": np.ones((2,) * (i % 3)),
        }

    check_laws(lambda ds: ds.map(ragged), Dataset.range(7))


def test_errors_come_in_their_place():
    check_errors(lambda ds: ds.map(lambda x: x + 1), Dataset.range(12))


def test_results_do_not_wait_for_slow_ones():
    calls = []

    def slow(x):
        calls.append(x)
        if x >= 2:
            time.sleep(0.5)
        return x

    assert next(iter(Dataset.range(100).map(slow))) == 0
    assert len(calls) < 10


def test_an_interrupted_map_goes_on_where_it_was():
    interrupts = [KeyboardInterrupt]

    def interrupted(x):
        if x == 5 and interrupts:
            raise interrupts.pop()
        return x

    rows = iter(Dataset.range(9).map(interrupted))
    with pytest.raises(KeyboardInterrupt):
        list(rows)
    assert list(rows) == list(range(9))


def test_a_function_may_return_what_it_was_given():
    source = Dataset.from_tensor_slices((np.arange(6).reshape(3, 2), ["a", "b", "c"]))
    assert [(x.tolist(), y) for x, y in source.map(lambda x, y: (x, y))] == [
        ([0, 1], b"a"),
        ([2, 3], b"b"),
        ([4, 5], b"c"),
    ]


Pair = namedtuple("Pair", "a b")

RESULTS = {
    "a list": lambda x: [x, 2 * x],
    "one item": lambda x: [x],
    "lists in a list": lambda x: [[x, x], [x, x]],
    "lists of two lengths": lambda x: [[x], [x, x]],
    "tuples in a list": lambda x: [(x, x), (x, 1)],
    "dicts in a list": lambda x: [{"a": x}, {"a": [x, x]}],
    "numbers": lambda x: [1, 2.5, "a"],
    "None in a list": lambda x: [None, x],
    "a list in a tuple": lambda x: ([x, x], x),
    "lists in a list in a tuple": lambda x: ([[x, x], [x, x]],),
    "a list in a dict": lambda x: {"a": [x, x]},
    "a namedtuple": lambda x: Pair(x, x),
    "a list in a namedtuple": lambda x: Pair([x, x], x),
}


@pytest.mark.parametrize("result", RESULTS.values(), ids=list(RESULTS))
def test_a_list_that_is_the_whole_result_is_a_tuple_as_in_tf_data(result):
    found = both(lambda D: D.range(5).map(result))
    for how in ({"num_parallel_calls": 2}, {"num_parallel_calls": 2, "executor": "thread"}):
        assert_same(Dataset.range(5).map(result, **how), found)
    assert same(Dataset.range(5).map(result)[3], found[3])
    check_laws(lambda ds: ds.map(result), Dataset.range(5))


def test_its_items_are_the_arguments_of_the_next_function_as_in_tf_data():
    assert both(lambda D: D.range(3).map(lambda x: [x, 2 * x]).map(lambda a, b: a + b)) == [0, 3, 6]


def test_an_empty_list_is_no_element_as_in_tf_data():
    with pytest.raises(UsageError, match="an element needs one array at least"):
        list(Dataset.range(2).map(lambda x: []))
    with pytest.raises(tensorflow().errors.InvalidArgumentError):
        tensorflow().data.Dataset.range(2).map(lambda x: [])


def test_lists_of_changing_length_are_refused_with_the_remedy():
    with pytest.raises(
        UsageError, match=r"A list that a function returns is a tuple.*For an array:  np\.array"
    ):
        list(Dataset.range(1, 4).map(lambda n: [0] * int(n)))
    arrays = Dataset.range(1, 4).map(lambda n: np.array([0] * int(n)))
    assert [len(one) for one in arrays] == [1, 2, 3]


class Color(enum.IntEnum):
    RED = 1


def test_numbers_of_pythons_own_classes_are_narrow_as_in_tf_data():
    both(lambda D: D.range(2).map(lambda x: (Color.RED, 2.5, True)))
    both(lambda D: D.from_tensors([Color.RED, Color.RED]))


@pytest.mark.parametrize("how", [{}, {"num_parallel_calls": 2}], ids=str)
def test_a_dtype_that_no_element_has_is_refused_as_in_tf_data(how):
    wide = np.array([1, 2], "longdouble")
    with pytest.raises(TypeError):
        tensorflow().data.Dataset.range(2).map(lambda x: wide)
    with pytest.raises(UsageError, match=wide.dtype.name):
        list(Dataset.range(2).map(lambda x: wide, **how))


def test_an_object_that_is_no_array_is_handed_on():
    marker = object()
    assert list(Dataset.range(2).map(lambda x: (x, marker))) == [(0, marker), (1, marker)]


@pytest.mark.parametrize("calls", [0, -2, "2", 1.5, 2**63])
def test_the_number_of_calls_is_refused_as_by_tf_data(calls):
    both_refuse(lambda D: D.range(3).map(lambda x: x, num_parallel_calls=calls))
    with pytest.raises(UsageError) as caught:
        Dataset.range(3).map(lambda x: x, num_parallel_calls=calls)
    assert str(caught.value) == (
        f"map(num_parallel_calls={calls!r}): must be an int from 1 to 2**31 - 1, or AUTOTUNE (-1), or None."
    )


@pytest.mark.parametrize("function", [None, 5, "lambda x: x"])
def test_map_wants_a_function(function):
    both_refuse(lambda D: D.range(3).map(function))
    with pytest.raises(UsageError) as caught:
        Dataset.range(3).map(function)
    kind = type(function).__name__
    assert str(caught.value) == f"map({function!r}): give a function of one element, not {kind}."


def reuses(make):
    """A function that writes its result into the same memory each time."""
    buffer = np.zeros(2, np.int64)

    def function(x):
        buffer[:] = x
        return make(buffer)

    return function


@pytest.mark.parametrize(
    "make",
    [
        lambda b: b,
        lambda b: b[:1],
        lambda b: (b, {"x": b[::-1]}),
        lambda b: Ragged(b, [0, 1, 2]),
        lambda b: memoryview(b),
    ],
    ids=["array", "view", "tree", "ragged", "memoryview"],
)
def test_a_function_may_use_its_memory_again(make):
    expected = [make(np.full(2, x)) for x in range(100)]
    assert_same(Dataset.range(100).map(reuses(make)), expected)
    assert_same(Dataset.range(100).map(reuses(make)).skip(0), expected)


def test_a_function_may_return_the_list_it_fills():
    kept = [0]

    def function(x):
        kept[0] = int(x)
        return kept

    assert list(Dataset.range(50).map(function)) == [(x,) for x in range(50)]
    lists = Dataset.range(50).map(lambda x: {"a": function(x)})
    assert [row["a"].tolist() for row in lists] == [[x] for x in range(50)]

"""batch."""

from __future__ import annotations

import numpy as np
import pytest

from feedline import Dataset, Ragged, UsageError
from feedline.testing import check_errors, check_laws
from tests.ops.sources import OTHER_SHAPES, every_equal_source
from tests.tfdata import both, both_refuse

SIZES = (1, 2, 3, 9, 10, 99)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("drop", [False, True])
def test_batches_are_those_of_tf_data(size, drop):
    both(lambda D: D.range(9).batch(size, drop_remainder=drop))
    both(lambda D: D.range(20).filter(lambda x: x % 3 == 0).batch(size, drop))
    both(lambda D: D.range(0).batch(size, drop))
    both(lambda D: D.range(4).repeat().batch(size, drop), most=10)
    both(lambda D: D.range(9).batch(2).batch(size, True))
    both(lambda D: D.from_tensor_slices((["a", "bc", ""], [[1], [2], [3]], None)).batch(size, drop))
    both(lambda D: D.from_tensor_slices({"x": np.zeros((4, 0)), "y": [["a"]] * 4}).batch(size, drop))


def test_batches_made_in_parallel_are_the_same():
    both(lambda D: D.range(9).batch(2, num_parallel_calls=2, deterministic=True))


@every_equal_source
@pytest.mark.parametrize("drop", [False, True], ids=["", "drop"])
def test_batch_obeys_the_laws(source, drop):
    for size in (1, 2, 4):
        check_laws(lambda ds, size=size: ds.batch(size, drop_remainder=drop), source)
    check_laws(lambda ds: ds.batch(2, True).batch(2, drop), source)


@pytest.mark.parametrize("name", ["ragged", "ragged strings", "ragged twice", "whole ragged"])
def test_ragged_batches_obey_the_laws(name):
    check_laws(lambda ds: ds.batch(2), OTHER_SHAPES[name])
    check_laws(lambda ds: ds.batch(2, True).batch(2), OTHER_SHAPES[name])


def test_a_function_may_return_ragged_values():
    def ragged(i):
        return Ragged(np.arange(i), [0, i // 2, i])

    [one] = check_laws(lambda ds: ds.map(ragged).batch(3), Dataset.range(3))
    assert one.to_list() == [[[], []], [[], [0]], [[0], [1]]]


def test_errors_come_in_their_place():
    events = check_errors(lambda ds: ds.batch(3), Dataset.range(12))
    # As in tf.data: the elements in front of one that fails, in its batch, go with it.
    assert next(what[1] for what in events if what[0] == "element").tolist() == [5, 6, 7]


def test_shapes_need_to_be_equal_within_a_batch_only():
    shapes = [(2, 2), (2, 2), (3, 1), (3, 1), (), (), (4,), (4,), (1,), (1,)]
    strings = Dataset.range(10).map(lambda i: np.full(shapes[i], b"x", object))
    for dataset in (Dataset.range(10).map(lambda i: np.full(shapes[i], i)), strings):
        batches = check_laws(lambda ds: ds.batch(2), dataset)
        assert [batch.shape for batch in batches] == [(2, *shape) for shape in shapes[::2]]
    rows = check_laws(lambda ds: ds.batch(2), Dataset.range(6).map(lambda i: np.full(i // 2, i)))
    assert [row.tolist() for row in rows] == [[[], []], [[2], [3]], [[4, 4], [5, 5]]]


@pytest.mark.parametrize("size", [0, -1])
def test_a_batch_of_nothing_is_refused_as_by_tf_data(size):
    both_refuse(lambda D: D.range(3).batch(size))


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ((0,), "batch(batch_size=0): a batch has 1 element at least."),
        (("3",), "batch(batch_size='3'): batch_size must be an int, not str."),
        ((2.0,), "batch(batch_size=2.0): batch_size must be an int, not float."),
        ((2, "yes"), "batch(drop_remainder='yes'): drop_remainder must be True or False, not str."),
    ],
)
def test_batch_says_what_is_wrong(args, text):
    with pytest.raises(UsageError) as caught:
        Dataset.range(3).batch(*args)
    assert str(caught.value) == text


def test_shapes_that_differ_are_refused_as_by_tf_data():
    both(lambda D: D.range(7).batch(3).batch(2))


def test_shapes_that_differ_are_told_with_their_place():
    source = Dataset.range(9).map(lambda i: {"a": i, "b": (np.zeros((2 if i < 5 else 3, 4)),)})
    for dataset in (source, source.filter(lambda x: True)):
        rows = iter(dataset.batch(2))
        assert len([next(rows), next(rows)]) == 2
        with pytest.raises(UsageError) as caught:
            next(rows)
        line = test_shapes_that_differ_are_told_with_their_place.__code__.co_firstlineno + 3
        assert str(caught.value) == (
            f"batch, added at {__file__}:{line}: element 5 has ArraySpec((3, 4), float64) at "
            'element["b"][0], and element 4, the first of its batch, ArraySpec((2, 4), float64).\n'
            "  The elements of a batch must have equal shapes. To fill them up:  padded_batch(...)"
        )
        assert next(rows)["a"].tolist() == [6, 7]
    with pytest.raises(UsageError, match=r"element 5 has .* and element 4, the first of its batch"):
        source.batch(2)[2]


def test_objects_cannot_be_batched():
    with pytest.raises(UsageError, match=r"element\[0\] is no array, but an object that cannot be stacked"):
        list(Dataset.range(3).map(lambda x: (object(), x)).batch(2))

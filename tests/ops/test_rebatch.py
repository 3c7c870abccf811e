"""rebatch: how batches are cut and joined."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from feedline import Dataset, Ragged, UsageError
from feedline.spec import RaggedSpec
from feedline.testing import check_errors, check_laws
from tests.ops import oracle, sources
from tests.tfdata import both, both_refuse, compare

tf = oracle.tf


def generated(D, elements, *signature):
    specs = tuple(tf.TensorSpec(shape, dtype) for shape, dtype in signature)
    return D.from_generator(lambda: elements, output_signature=specs[0] if len(specs) == 1 else specs)


def test_as_tf_data_documents_it():
    assert [b.tolist() for b in both(lambda D: D.range(6).batch(2).rebatch(3))] == [[0, 1, 2], [3, 4, 5]]
    assert [b.tolist() for b in both(lambda D: D.range(7).batch(4).rebatch(3))] == [[0, 1, 2], [3, 4, 5], [6]]
    both(lambda D: D.range(7).batch(2).rebatch(3, drop_remainder=True))
    found = both(lambda D: D.range(8).batch(4).rebatch([2, 1, 1]))
    assert [b.tolist() for b in found] == [[0, 1], [2], [3], [4, 5], [6], [7]]


def test_batches_are_those_of_tf_data_whatever_the_sizes():
    for size, drop in product((1, 3, 9, [2, 3], [4, 4], [5, 1]), (False, True)):
        both(lambda D, size=size, drop=drop: D.range(7).batch(4).rebatch(size, drop))
    both(lambda D: D.range(8).batch(1).rebatch(4))
    both(lambda D: D.range(0).batch(4).rebatch(3))


@pytest.mark.parametrize("rows", [0, 1, 3, 4])
@pytest.mark.parametrize("sizes", [[1, 0], [0, 1], [2, 0], [0, 2], [2, 0, 0, 1], [0, 3, 1]], ids=str)
def test_a_size_of_0_gives_an_empty_batch_as_in_tf_data(sizes, rows):
    for drop in (False, True):
        both(lambda D, drop=drop: D.range(rows).batch(2).rebatch(sizes, drop))
    both(
        lambda D: D.range(rows).map(lambda x: {"a": x, "b": [x, x]}).batch(2).rebatch(sizes)
    ) if rows else None


@pytest.mark.parametrize("size", [0, [0], [0, 0]], ids=str)
def test_sizes_that_are_all_0_give_empty_batches_without_end(size):
    for drop in (False, True):
        found = both(lambda D, drop=drop: D.range(3).batch(2).rebatch(size, drop), most=9)
        assert [one.shape for one in found] == [(0,)] * 9


def test_sizes_of_an_empty_batch_that_are_not_known_are_0():
    pairs = [np.zeros((2, 3)), np.zeros((2, 3))]
    for shape in ([None, None], [None, 3], [2, 3]):
        both(lambda D, shape=shape: generated(D, pairs, (shape, "float64")).rebatch([0, 2]))
    both(lambda D: generated(D, [["a", "b"], ["c"]], ([None], tf.string)).rebatch([0, 2]))
    both(lambda D: generated(D, [], ([None], "int32")).rebatch([0, 2]))


def test_an_empty_batch_of_ragged_rows_is_ragged():
    ragged = Ragged([1, 2, 3, 4], [0, 2, 2, 4])
    theirs = tf.RaggedTensor.from_row_splits([1, 2, 3, 4], [0, 2, 2, 4])
    for sizes in ([0, 2], [2, 0]):
        compare(
            Dataset.from_tensors(ragged).rebatch(sizes), tf.data.Dataset.from_tensors(theirs).rebatch(sizes)
        )


def test_no_empty_batch_comes_where_nothing_tells_what_it_is_like():
    assert list(Dataset.range(0).map(lambda x: [x]).rebatch([0, 1])) == []


@pytest.mark.parametrize("sizes", [[0, 2], [2, 0], [1, 0, 3]], ids=str)
def test_it_obeys_the_laws_with_empty_batches(sizes):
    for drop in (False, True):
        check_laws(lambda ds, drop=drop: ds.batch(2).rebatch(sizes, drop), Dataset.range(7))
    check_laws(lambda ds: ds.rebatch(sizes), Dataset.range(5).map(lambda i: np.full((i % 3, 2), i)))
    check_laws(lambda ds: ds.rebatch(sizes), Dataset.from_tensors(sources.RAGGED).repeat(2))
    check_laws(lambda ds: ds.batch(2).rebatch(0), Dataset.range(3), most=9)
    ours = check_errors(lambda ds: ds.batch(1).rebatch(sizes), Dataset.range(16))
    oracle.assert_same_events(ours, oracle.failing_range(16).batch(1).rebatch(sizes))


def test_the_size_is_in_the_spec_where_no_batch_can_be_short():
    for size, drop in product((3, 4, [2, 2], [2, 3]), (False, True)):
        ours, theirs = (D.range(12).batch(6, True).rebatch(size, drop) for D in (Dataset, tf.data.Dataset))
        assert ours.element_spec.shape == tuple(theirs.element_spec.shape)


def test_batches_of_changing_sizes_are_joined():
    elements = [np.full((i % 4, 2), i) for i in range(9)]
    for size in (2, [3, 1]):
        both(lambda D, size=size: generated(D, elements, ([None, 2], "int64")).rebatch(size))
    strings = [np.full((i % 4, 2), b"s" * i, object) for i in range(9)]
    both(lambda D: generated(D, strings, ([None, 2], tf.string)).rebatch(3))
    tree = {"a": np.arange(12.0).reshape(2, 3, 2), "b": (np.array([["x", "y", "z"]] * 2), None)}
    both(lambda D: D.from_tensor_slices(tree).rebatch(2))


def test_ragged_batches_stay_ragged():
    ragged = Ragged([1, 2, 3, 4], [0, 2, 2, 4])
    theirs = tf.RaggedTensor.from_row_splits([1, 2, 3, 4], [0, 2, 2, 4])
    for size in (2, 4, [1, 2]):
        ours = Dataset.from_tensors(ragged).repeat(3).rebatch(size)
        compare(ours, tf.data.Dataset.from_tensors(theirs).repeat(3).rebatch(size))
        # Also where nothing is known of the elements.
        mapped = Dataset.from_tensors(ragged).repeat(3).map(lambda x: x).rebatch(size)
        assert all(a.equals(b) for a, b in zip(ours, mapped, strict=True))
    assert Dataset.from_tensors(ragged).rebatch(2).element_spec == RaggedSpec(
        (None, None), np.dtype("int32"), 1
    )


def test_what_is_not_joined_is_not_copied():
    values = np.arange(24).reshape(3, 8)
    for batch in Dataset.from_tensor_slices(values).rebatch(4):
        assert np.shares_memory(batch, values)


@pytest.mark.parametrize("size", [-1, [], [2, -1], [[1]], 2.5, "a"], ids=str)
def test_sizes_are_integers_of_at_least_0(size):
    # tf.data crashes for less than 0.
    with pytest.raises(UsageError, match="at least 0, or a list"):
        Dataset.range(5).batch(2).rebatch(size)
    for wrong in (2**63, [1, 2**63]):
        with pytest.raises(UsageError):
            Dataset.range(5).batch(2).rebatch(wrong)


def test_scalars_cannot_be_batched_again():
    error = both_refuse(lambda D: D.range(3).rebatch(2))
    assert "which has no rows" in str(error)


def test_joined_rows_must_have_equal_shapes():
    elements = [np.zeros((2, 3)), np.zeros((2, 3)), np.zeros((2, 4)), np.zeros((2, 4))]

    def step(D, size):
        return generated(D, elements, ([None, None], "float64")).rebatch(size)

    both(lambda D: step(D, 2))
    both(lambda D: step(D, 4))
    with pytest.raises(
        UsageError, match=r"row 4 of the batches has ArraySpec\(\(4,\), float64\) at element, and row 3"
    ):
        list(step(Dataset, 3))
    assert [kind for kind, *_ in oracle.events(step(tf.data.Dataset, 3).as_numpy_iterator())] == [
        "element",
        "failed",
        "element",
    ]
    rows = iter(step(Dataset, 3))
    next(rows)
    with pytest.raises(UsageError):
        next(rows)
    assert next(rows).shape == (2, 4)


def test_failing_batches_take_the_rows_before_them_along_as_in_tf_data():
    for size in (3, [2, 1]):
        ours = check_errors(
            lambda ds, size=size: ds.batch(1).map(lambda x: x * np.array([1, 2])).rebatch(size),
            Dataset.range(16),
        )
        theirs = oracle.failing_range(16).batch(1).map(lambda x: x * np.array([1, 2])).rebatch(size)
        oracle.assert_same_events(ours, theirs)


@pytest.mark.parametrize("size", [3, [1, 3]], ids=str)
@sources.every_equal_source
def test_it_obeys_the_laws(source, size):
    check_laws(lambda ds: ds.batch(2).rebatch(size), source)


def test_it_obeys_the_laws_whatever_the_size_of_batches():
    changing = Dataset.range(9).map(lambda i: np.full((i % 4, 2), i))
    check_laws(lambda ds: ds.rebatch([2, 5], drop_remainder=True), changing)
    check_laws(lambda ds: ds.shuffle(4, seed=1).rebatch(3).repeat(2), changing)
    check_laws(lambda ds: ds.rebatch(2), Dataset.from_tensors(sources.RAGGED).repeat(2))

"""unbatch: which rows come, and what has none."""

from __future__ import annotations

import numpy as np
import pytest

from feedline import Dataset, Ragged, UsageError
from feedline.graph import Context
from feedline.run import LocalServices
from feedline.spec import ArraySpec, RaggedSpec
from feedline.testing import assert_same, check_errors, check_laws
from tests.ops import oracle, sources
from tests.tfdata import both, both_refuse

tf = oracle.tf

INT64 = np.dtype("int64")


def generated(D, elements, *signature):
    specs = tuple(tf.TensorSpec(shape, dtype) for shape, dtype in signature)
    return D.from_generator(lambda: elements, output_signature=specs[0] if len(specs) == 1 else specs)


def test_batches_of_changing_sizes_give_their_rows():
    elements = [np.array(row, "int64") for row in ([1, 2, 3], [1, 2], [], [1, 2, 3, 4])]
    found = both(lambda D: generated(D, elements, (None, "int64")).unbatch())
    assert [int(x) for x in found] == [1, 2, 3, 1, 2, 1, 2, 3, 4]


def test_it_undoes_batch():
    for drop in (False, True):
        both(lambda D, drop=drop: D.range(7).batch(3, drop_remainder=drop).unbatch())
        both(lambda D, drop=drop: D.range(7).batch(2).batch(2, drop_remainder=drop).unbatch().unbatch())
    both(lambda D: D.from_tensor_slices(np.arange(24).reshape(2, 3, 4)).unbatch())
    both(lambda D: D.range(0).batch(2).unbatch())


def test_the_rows_of_all_parts_come_together():
    tree = {"a": np.arange(12.0).reshape(2, 3, 2), "b": (np.array([["x", "y", "z"]] * 2), None)}
    both(lambda D: D.from_tensor_slices(tree).unbatch())


def test_rows_may_change_their_shape_from_batch_to_batch():
    elements = [np.full((i % 3, i % 4 + 1), i) for i in range(9)]  # tf.data crashes for rows of nothing
    both(lambda D: generated(D, elements, ([None, None], "int64")).unbatch())
    strings = [np.full((i % 3, i % 4 + 1), b"s" * i, object) for i in range(9)]
    both(lambda D: generated(D, strings, ([None, None], tf.string)).unbatch())


def test_the_rows_of_ragged_batches_are_arrays():
    ragged = Ragged([1, 2, 3, 4], [0, 2, 2, 4])
    theirs = tf.RaggedTensor.from_row_splits([1, 2, 3, 4], [0, 2, 2, 4])
    ours = Dataset.from_tensors(ragged).repeat(2).unbatch()
    wanted = tf.data.Dataset.from_tensors(theirs).repeat(2).unbatch()
    assert_same(ours, wanted.as_numpy_iterator())
    assert [row.tolist() for row in ours] == [[1, 2], [], [3, 4]] * 2
    assert ours.element_spec == RaggedSpec((None,), np.dtype("int32"), 0)
    twice = Dataset.from_tensors(Ragged(ragged, [0, 1, 3])).unbatch()
    assert [row.to_list() for row in twice] == [[[1, 2]], [[], [3, 4]]]


def test_cardinality_is_known_where_the_size_of_batches_is():
    for count in (None, 0, 2):
        both(lambda D, n=count: D.range(9).batch(3, drop_remainder=True).repeat(n).unbatch(), most=5)
        both(lambda D, n=count: D.range(9).batch(3).repeat(n).unbatch(), most=5)


def test_nothing_is_copied():
    values = np.arange(24).reshape(2, 3, 4)
    for row in Dataset.from_tensor_slices(values).unbatch():
        assert np.shares_memory(row, values)


def test_not_more_batches_are_made_than_are_asked_for():
    made = []

    def make(x):
        made.append(int(x))
        return np.arange(100)

    stream = Context(LocalServices()).open(Dataset.range(50).map(make).unbatch()._node)
    stream.next(10)
    stream.next(250)
    assert made == [0, 1, 2]


def test_scalars_have_no_rows():
    both_refuse(lambda D: D.range(3).unbatch())
    both_refuse(lambda D: D.range(8).batch(2).enumerate().unbatch())
    scalars = [np.int64(1), np.int64(2)]
    both(lambda D: generated(D, scalars, (None, "int64")).unbatch())
    with pytest.raises(
        UsageError, match=r"element 0 has ArraySpec\(\(\), int64\) at element, which has no rows"
    ):
        list(Dataset.range(3).map(lambda x: x).unbatch())


def test_all_parts_must_have_as_many_rows():
    error = both_refuse(lambda D: D.from_tensor_slices((np.zeros((2, 3)), np.zeros((2, 4)))).unbatch())
    assert "element[0] has 3 and element[1] has 4" in str(error)


def test_a_batch_of_unequal_parts_fails_and_the_others_come():
    elements = [(np.zeros(a), np.zeros(b)) for a, b in ((2, 2), (1, 1), (2, 3), (1, 1), (0, 1), (1, 1))]

    def step(D):
        return generated(D, elements, ([None], "float64"), ([None], "float64")).unbatch()

    wanted = [kind for kind, *_ in oracle.events(step(tf.data.Dataset).as_numpy_iterator())]
    assert wanted == [*["element"] * 3, "failed", "element", "failed", "element"]
    for rows in (1, 2, 1024):
        stream = Context(LocalServices(), block_rows=rows).open(step(Dataset)._node)
        found = []
        while True:
            try:
                block = stream.next(100)
            except UsageError:
                found.append("failed")
                continue
            if block is None:
                break
            found += ["element"] * block.rows
        assert found == wanted


def test_failing_batches_fail_in_their_place_as_in_tf_data():
    def step(ds):
        return ds.batch(1).map(lambda x: x * np.array([1, 2])).unbatch()

    ours = check_errors(step, Dataset.range(16))
    oracle.assert_same_events(ours, step(oracle.failing_range(16)))


@sources.every_equal_source
def test_it_obeys_the_laws(source):
    check_laws(lambda ds: ds.batch(2).unbatch(), source)


def test_it_obeys_the_laws_whatever_the_size_of_batches():
    check_laws(lambda ds: ds.unbatch(), Dataset.from_tensor_slices((sources.RAGGED, sources.RAGGED)))
    check_laws(lambda ds: ds.unbatch(), Dataset.from_tensor_slices(Ragged(sources.RAGGED, [0, 3, 3, 7])))
    check_laws(lambda ds: ds.unbatch(), Dataset.from_tensors(sources.RAGGED).repeat(3))
    changing = Dataset.range(6).map(lambda i: np.full((i % 3, i % 2 + 1), i))
    check_laws(lambda ds: ds.unbatch(), changing)
    check_laws(lambda ds: ds.shuffle(3, seed=1).unbatch().shuffle(4, seed=2), changing)
    check_laws(lambda ds: ds.batch(3).prefetch(1).unbatch(), Dataset.range(8))


def test_the_spec_is_that_of_a_row():
    assert Dataset.range(6).batch(2).unbatch().element_spec == ArraySpec((), INT64)
    assert generated(Dataset, [], (None, "int64")).unbatch().element_spec == ArraySpec(None, INT64)


@pytest.mark.parametrize("ask", [list, lambda ds: ds.cardinality(), lambda ds: str(ds.explain())])
@pytest.mark.parametrize("step", [lambda ds: ds.unbatch(), lambda ds: ds.rebatch(2)])
def test_scalars_that_only_elements_tell_of_are_refused_each_time(step, ask):
    dataset = step(Dataset.range(2).flat_map(lambda i: Dataset.range(3)))
    for _ in range(2):
        with pytest.raises(UsageError, match="which has no rows"):
            list(dataset)
    if ask is not list:
        ask(dataset)

"""Datasets as elements: they can be batched, and come out again, as in tf.data."""

from __future__ import annotations

import pytest

from feedline import Dataset, UsageError
from feedline.spec import ArraySpec, DatasetSpec
from feedline.testing import check_errors, check_laws
from tests.tfdata import both

INT64 = Dataset.range(1).element_spec


def nested(D, count=5):
    return D.range(count).map(lambda i: D.range(i, i + 2))


PIPELINES = {
    "batch": lambda D: nested(D).batch(2).unbatch(),
    "batch, without the remainder": lambda D: nested(D).batch(2, drop_remainder=True).unbatch(),
    "batches of batches": lambda D: nested(D).batch(2).batch(2).unbatch().unbatch(),
    "rebatch": lambda D: nested(D).batch(2).rebatch(3).unbatch(),
    "rebatch by turns": lambda D: nested(D).batch(4).rebatch([1, 0, 2]).unbatch(),
    "windows": lambda D: D.range(5).window(2).batch(2).unbatch(),
    "shuffled batches": lambda D: nested(D, 1).batch(1).shuffle(3).unbatch(),
}


@pytest.mark.parametrize("step", PIPELINES.values(), ids=list(PIPELINES))
def test_batches_of_datasets_come_out_again_as_in_tf_data(step):
    assert both(lambda D: step(D).flat_map(lambda one: one))
    check_laws(lambda ds: step(Dataset), Dataset.range(0))


def test_beside_arrays_datasets_are_batched_too():
    def pairs(D):
        batches = D.zip(D.range(3), nested(D, 3)).batch(2)
        return batches.unbatch().flat_map(lambda number, one: D.zip(one, D.from_tensors(number).repeat()))

    both(pairs)


def test_a_batch_of_datasets_obeys_the_laws():
    check_laws(lambda ds: ds.map(Dataset.range).batch(2), Dataset.range(5))
    check_laws(lambda ds: ds.window(2).batch(2), Dataset.range(7))
    check_errors(lambda ds: ds.map(Dataset.range).batch(2).unbatch(), Dataset.range(12))


def test_a_batch_of_datasets_is_a_sequence_of_them():
    first, second = Dataset.range(5).window(2).batch(2)
    assert [[int(x) for x in one] for one in first] == [[0, 1], [2, 3]]
    assert (len(first), len(second)) == (2, 1)
    assert list(second[0]) == [4]


def test_the_spec_tells_the_datasets():
    windows = Dataset.range(5).window(2)
    assert windows.batch(2).element_spec == DatasetSpec(ArraySpec((), INT64.dtype), (None,))
    assert windows.batch(2, drop_remainder=True).element_spec.shape == (2,)
    assert windows.batch(2).unbatch().element_spec == windows.element_spec


def test_what_tf_data_refuses_is_refused():
    with pytest.raises(UsageError, match="only arrays can be filled up"):
        list(nested(Dataset).padded_batch(2))
    with pytest.raises(UsageError, match="which has no rows"):
        list(nested(Dataset).unbatch())
    with pytest.raises(UsageError, match="must return a feedline Dataset"):
        list(nested(Dataset).batch(2).flat_map(lambda batch: batch))

"""Rows of a Ragged become a Ragged when they are batched, whatever is in between and whatever ran before.

Arrays whose lengths change are held as rows of a Ragged are; only the spec tells them apart, and that of
datasets which functions make is known when one was made.
"""

from __future__ import annotations

import numpy as np
import pytest

from feedline import Dataset, Ragged, RaggedFeature, UsageError, example
from feedline.testing import assert_same, check_laws
from feedline.write import TFRecordWriter
from tests.tfdata import both, tensorflow


def ragged(D, lengths=(1, 2)):
    splits = np.cumsum([0, *lengths])
    make = Ragged if D is Dataset else tensorflow().RaggedTensor.from_row_splits
    return D.range(1).flat_map(lambda i: D.from_tensor_slices(make(np.arange(splits[-1]), splits)))


PIPELINES = {
    "a batch": lambda D, n: ragged(D, n).batch(2),
    "a window": lambda D, n: ragged(D, n).window(2).flat_map(lambda w: w.batch(2)),
    "a group": lambda D, n: ragged(D, n).group_by_window(lambda x: np.int64(1), lambda k, g: g.batch(2), 2),
    "two": lambda D, n: ragged(D, n).concatenate(ragged(D, n)).batch(2),
    "one in another": lambda D, n: D.range(2).flat_map(lambda i: ragged(D, n)).batch(2),
    "in a window of another": lambda D, n: (
        D.range(2).flat_map(lambda i: ragged(D, n)).window(2).flat_map(lambda w: w.batch(2))
    ),
    "cached": lambda D, n: ragged(D, n).cache().batch(2),
}


@pytest.mark.parametrize("lengths", [(1, 2), (2, 2)], ids=["of different lengths", "of one length"])
@pytest.mark.parametrize("pipeline", PIPELINES.values(), ids=PIPELINES.keys())
def test_a_batch_of_ragged_rows_is_ragged_as_in_tf_data(pipeline, lengths):
    found = both(lambda D: pipeline(D, lengths))
    assert all(isinstance(batch, Ragged) for batch in found)
    ours = pipeline(Dataset, lengths)
    assert_same(list(ours), found, "the first time")
    assert_same(list(ours), found, "the second time")
    check_laws(lambda ds: pipeline(Dataset, lengths), Dataset.range(1))


@pytest.mark.parametrize("lengths", [(1, 2, 1, 3), (2, 2, 2, 2)], ids=["different", "equal"])
def test_so_it_is_for_a_run_that_only_reads_what_another_has_cached(tmp_path, lengths):
    paths = [tmp_path / "a.tfrecord", tmp_path / "b.tfrecord"]
    for path in paths:
        with TFRecordWriter(path) as writer:
            for length in lengths:
                writer.write(example.encode({"v": np.arange(length)}))

    def run():  # nothing of the steps is remembered from the run before
        records = Dataset.from_tfrecords(paths, {"v": RaggedFeature("int64")}, num_parallel_reads=2)
        return list(records.cache(tmp_path / "cache").batch(4))

    first = run()
    assert all(isinstance(batch["v"], Ragged) for batch in first)
    assert_same(run(), first, "the second run")


def test_arrays_that_a_function_returns_are_no_rows_of_a_ragged():
    lengths = Dataset.range(1, 3).flat_map(lambda n: Dataset.from_tensors(n).map(lambda n: np.zeros(n)))
    for dataset in (lengths, lengths.concatenate(lengths), lengths.window(2).flat_map(lambda w: w)):
        with pytest.raises(UsageError, match="padded_batch"):
            list(dataset.batch(2))


def test_what_fails_among_the_first_elements_does_not_hide_the_others():
    def fail(x):
        if x < 20:
            raise KeyError(x)
        return x

    numbers = Dataset.range(24).map(fail).flat_map(lambda n: Dataset.from_tensors([n, n]))
    batches = numbers.concatenate(numbers).batch(2).ignore_errors()
    assert [batch[:, 0].tolist() for batch in batches] == [[20, 21], [22, 23]] * 2


def test_a_first_dataset_without_elements_does_not_hide_that_the_others_are_ragged():
    inner = [Dataset.range(0).flat_map(Dataset.range), Dataset.range(2).flat_map(lambda i: ragged(Dataset))]
    dataset = Dataset.range(2).flat_map(lambda i: inner[i])
    assert [batch.to_list() for batch in dataset.batch(2)] == [[[0], [1, 2]]] * 2
    assert dataset.element_spec.dtype == np.dtype("int64")


@pytest.mark.parametrize(
    "step",
    [
        lambda ds: ds.window(10).flat_map(lambda window: window),
        lambda ds: ds.group_by_window(lambda x: np.int64(len(x)), lambda key, group: group, 2),
        lambda ds: ds.padded_batch(3).unbatch(),
    ],
    ids=["window", "group_by_window", "padded_batch"],
)
@pytest.mark.parametrize("outside", [False, True])
def test_a_source_that_can_be_read_once_only_is_read_once_only(step, outside):
    numbers = iter(range(60))  # as a queue, or a pipe

    def source():
        for number in numbers:
            yield np.full(number % 3 + 1, number)

    def same(x):
        return x

    made = Dataset.from_generator(source)
    if outside:
        made = made.flat_map(lambda x: Dataset.from_tensors(x)).map(same)
    else:
        made = made.flat_map(lambda x: Dataset.from_tensors(x).map(same))
    assert sorted(int(x[0]) for x in step(made)) == list(range(60))

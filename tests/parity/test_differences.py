"""Where feedline differs from tf.data on purpose: what docs/reference/tf-data.md numbers, on both sides."""

from __future__ import annotations

import os
import time

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow", reason="TensorFlow, the oracle, is not installed")

from feedline import (  # noqa: E402
    UNKNOWN_CARDINALITY,
    Dataset,
    FeedlineError,
    Ragged,
    UsageError,
    records,
)
from feedline._native import frame  # noqa: E402
from feedline.run.cores import usable_cores  # noqa: E402

THEIRS = tf.data.Dataset
ERROR = "an error"


def failing_at(bad):
    def check(x):
        if isinstance(x, np.generic):
            if x == bad:
                raise KeyError(bad)
            return x
        with tf.control_dependencies([tf.debugging.Assert(x != bad, [x])]):
            return tf.identity(x)

    return check


def events(dataset, most=30):
    """Elements as plain Python, and ERROR in the place of each error."""
    found = []
    rows = iter(dataset.as_numpy_iterator())
    while len(found) < most:
        try:
            one = next(rows)
        except StopIteration:
            return found
        except (KeyError, FeedlineError, tf.errors.OpError):
            one = ERROR
        found.append(one.tolist() if hasattr(one, "tolist") else one)
    return found


def calls_for_the_first_element(D, step, seconds):
    calls = []

    def function(x):
        calls.append(1)
        time.sleep(seconds)
        return x

    if D is Dataset:
        next(iter(step(D, function)))
        return len(calls)
    alone = tf.data.Options()
    alone.experimental_optimization.inject_prefetch = False
    next(iter(step(D, lambda x: tf.numpy_function(function, [x], tf.int64)).with_options(alone)))
    return len(calls)


AHEAD = {
    "map": lambda D, f: D.range(10).map(f),
    "cache": lambda D, f: D.range(10).map(f).cache(),
    "flat_map": lambda D, f: D.range(10).flat_map(lambda i: D.from_tensors(f(i))),
    "interleave": lambda D, f: D.range(2).interleave(lambda i: D.range(10).map(f), cycle_length=2),
}


@pytest.mark.parametrize("step", AHEAD.values(), ids=list(AHEAD))
def test_1_functions_run_ahead_unless_they_are_slow(step):
    assert calls_for_the_first_element(THEIRS, step, 0) == 1
    # How far they run in 5 ms depends on the machine.
    assert any(calls_for_the_first_element(Dataset, step, 0) > 1 for _ in range(100))
    # Those that take longer run once for each element.
    assert calls_for_the_first_element(THEIRS, step, 0.02) == 1
    assert calls_for_the_first_element(Dataset, step, 0.02) == 1


def test_1_a_slow_generator_and_a_slow_input_of_shuffle_run_no_further_than_needed():
    yielded = []

    def slow():
        for number in range(1000):
            time.sleep(0.02)
            yielded.append(number)
            yield number

    assert next(iter(Dataset.from_generator(slow))) == 0
    assert yielded == [0]
    yielded.clear()
    next(iter(Dataset.from_generator(slow).shuffle(5)))
    assert len(yielded) <= 5 + 1


def test_1_take_bounds_how_far_functions_run():
    assert calls_for_the_first_element(Dataset, lambda D, f: D.range(1000).map(f).take(3), 0) <= 3
    assert calls_for_the_first_element(Dataset, lambda D, f: D.range(1000).map(f).cache().take(3), 0) <= 3


def test_2_large_numbers_become_wider():
    assert events(Dataset.from_tensors((2**63, 1e39))) == [(2**63, 1e39)]
    assert events(Dataset.range(1).map(lambda x: 1e39)) == [1e39]
    with pytest.raises(ValueError, match="convert"):
        THEIRS.from_tensors(2**63)
    with np.errstate(over="ignore"):
        assert events(THEIRS.range(1).map(lambda x: 1e39)) == [float("inf")]


def test_3_arguments_of_generators_are_as_they_are():
    def kind(argument):
        yield type(argument).__name__

    signature = tf.TensorSpec((), tf.string)
    assert events(Dataset.from_generator(kind, args=("a",))) == [b"str"]
    assert events(THEIRS.from_generator(kind, args=("a",), output_signature=signature)) == [b"bytes"]


def test_4_lengths_may_be_of_any_integer_dtype():
    def buckets(D):
        return D.range(1, 4).bucket_by_sequence_length(lambda x: x, [3], [2, 2])

    assert events(buckets(Dataset)) == [[1, 2], [3]]
    with pytest.raises((TypeError, ValueError)):
        buckets(THEIRS)


@pytest.mark.parametrize(
    ("step", "ours"),
    [(lambda ds: ds.skip(5), [5, 6, 7, 8, 9]), (lambda ds: ds.shard(3, 0), [0, 3, 6, 9])],
    ids=["skip", "shard"],
)
def test_5_what_is_passed_over_is_not_computed(step, ours):
    assert events(step(Dataset.range(10).map(failing_at(2)))) == ours
    assert ERROR in events(step(THEIRS.range(10).map(failing_at(2))))
    # Where elements have to be computed to be counted, the error comes.
    assert ERROR in events(step(Dataset.range(10).filter(lambda x: True).map(failing_at(2))))


def test_6_an_iteration_with_an_error_is_not_cached():
    def cached(D):
        return D.range(4).map(failing_at(2)).cache().repeat(2)

    assert events(cached(Dataset)) == [0, 1, ERROR, 3, 0, 1, ERROR, 3]
    assert events(cached(THEIRS)) == [0, 1, ERROR, 3, 0, 1, 3]


def test_7_a_batch_loses_what_is_before_the_error_and_not_what_is_after_it():
    def batches(D):
        return D.range(7).map(failing_at(3)).batch(3)

    assert events(batches(Dataset)) == [[0, 1, 2], ERROR, [4, 5, 6]]
    assert events(batches(THEIRS)) == [[0, 1, 2], ERROR, [6]]
    as_written = tf.data.Options()
    as_written.experimental_optimization.map_and_batch_fusion = False
    assert events(batches(THEIRS).with_options(as_written)) == events(batches(Dataset))


def test_8_one_shuffled_dataset_has_one_order():
    def pairs(D):
        shuffled = D.range(50).shuffle(50, seed=1)
        return events(D.zip(shuffled, shuffled), 50)

    assert all(one == other for one, other in pairs(Dataset))
    assert not all(one == other for one, other in pairs(THEIRS))


def test_9_each_made_dataset_is_shuffled_anew():
    def orders(D):
        found = events(D.range(2).flat_map(lambda i: D.range(20).shuffle(20, seed=1)), 40)
        assert sorted(found[:20]) == sorted(found[20:]) == list(range(20))
        return found[:20], found[20:]

    one, other = orders(Dataset)
    assert one != other
    one, other = orders(THEIRS)
    assert one == other


def test_10_rows_of_a_ragged_can_be_filled_up():
    rows = Dataset.from_tensor_slices(Ragged([1, 2, 3], [0, 1, 3]))
    assert events(rows.padded_batch(2)) == [[[1, 0], [2, 3]]]
    theirs = THEIRS.from_tensor_slices(tf.ragged.constant([[1], [2, 3]]))
    with pytest.raises(TypeError, match="padded_batch"):
        theirs.padded_batch(2)


def test_15_patterns_leave_out_what_feedline_wrote_beside_the_data(tmp_path):
    Dataset.range(3).map(lambda n: {"n": n}).save_tfrecords(tmp_path, shards=1)

    def listed(D, pattern):
        return list(D.list_files(str(tmp_path / pattern), shuffle=False).as_numpy_iterator())

    shards = [os.fsencode(path) for path in records.resolve(tmp_path)]
    assert listed(Dataset, "*") == shards
    assert set(listed(THEIRS, "*")) > set(shards)
    for pattern in ("*.tfrecord", "[!.]*"):
        assert listed(Dataset, pattern) == listed(THEIRS, pattern) == shards


def test_16_shard_keeps_files_whole_where_there_are_8_for_each(tmp_path):
    def write(files):
        for number in range(files):
            records = [b"%d-%d" % (number, n) for n in range(3)]
            (tmp_path / f"{number:02}").write_bytes(b"".join(map(frame, records)))
        return [str(tmp_path / f"{number:02}") for number in range(files)]

    def parts(whole):
        return [list(whole.shard(2, index).as_numpy_iterator()) for index in range(2)]

    few, many = write(15), write(16)
    assert parts(Dataset.from_tfrecords(few)) == parts(tf.data.TFRecordDataset(few))
    ours, theirs = parts(Dataset.from_tfrecords(many)), parts(tf.data.TFRecordDataset(many))
    assert ours == [list(records.read(many[index::2])) for index in range(2)]
    assert sorted(ours[0] + ours[1]) == sorted(theirs[0] + theirs[1])
    assert ours != theirs
    by_file = [THEIRS.list_files(many, shuffle=False).shard(2, index) for index in range(2)]
    assert ours == [list(tf.data.TFRecordDataset(one).as_numpy_iterator()) for one in by_file]
    mapped = Dataset.from_tfrecords(many).map(lambda record: record)
    assert parts(mapped) == theirs


def test_17_patterns_leave_out_pipes(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").touch()

    def listed(D, pattern):
        return list(D.list_files(str(tmp_path / pattern), shuffle=False).as_numpy_iterator())

    file, pipe = (os.fsencode(tmp_path / name) for name in ("file", "pipe"))
    assert listed(Dataset, "*") == [file]
    assert listed(THEIRS, "*") == [file, pipe]
    assert listed(Dataset, "pipe") == listed(THEIRS, "pipe") == [pipe]


def test_11_the_spec_is_what_was_observed():
    def zeros(i):
        return np.zeros(2 if i < 20 else 3) if isinstance(i, np.generic) else tf.zeros(tf.where(i < 20, 2, 3))

    def spec(D):
        return D.range(30).map(zeros).window(2).element_spec.element_spec

    assert spec(Dataset).shape == (2,)
    assert spec(THEIRS).shape.as_list() == [None]


def test_11_the_spec_of_an_empty_dataset_is_an_error_where_functions_make_the_elements():
    def nothing(D):
        return D.range(0).flat_map(lambda i: D.range(i))

    with pytest.raises(UsageError, match="Functions are called, not traced"):
        _ = nothing(Dataset).element_spec
    assert nothing(THEIRS).element_spec == tf.TensorSpec((), tf.int64)
    signature = tf.TensorSpec((), tf.int64)
    assert Dataset.from_generator(lambda: [], output_signature=signature).element_spec.dtype == np.int64


def test_12_a_cardinality_is_true_or_unknown():
    assert events(Dataset.range(4).take(-2)) == events(THEIRS.range(4).take(-2)) == [0, 1, 2, 3]
    assert Dataset.range(4).take(-2).cardinality() == 4
    assert int(THEIRS.range(4).take(-2).cardinality()) == -2

    def sampled(D):
        parts = [D.range(1).repeat(), D.range(1)]
        return D.sample_from_datasets(parts, seed=1, stop_on_empty_dataset=True)

    assert len(events(sampled(Dataset), 1000)) < 1000
    assert sampled(Dataset).cardinality() == UNKNOWN_CARDINALITY
    assert sampled(THEIRS).cardinality() == tf.data.INFINITE_CARDINALITY
    assert len(events(sampled(THEIRS), 1000)) < 1000


def test_13_more_calls_than_cores_are_a_cycle_of_that_length():
    calls = usable_cores() + 1

    def interleaved(D, *cycle):
        return D.range(9).interleave(lambda i: D.range(i, i + 3), *cycle, num_parallel_calls=calls)

    assert events(interleaved(Dataset)) == events(interleaved(Dataset, calls))
    assert events(interleaved(Dataset)) == events(interleaved(THEIRS, calls))
    with pytest.raises(tf.errors.InvalidArgumentError):
        next(iter(interleaved(THEIRS)))


def test_14_a_round_without_elements_ends_a_repeated_shuffle():
    def rounds(D, **signature):
        sizes = iter([2, 0])
        return D.from_generator(lambda: range(next(sizes, 2)), **signature).shuffle(10).repeat().take(5)

    signature = {"output_signature": tf.TensorSpec((), tf.int64)}
    assert sorted(events(rounds(Dataset))) == [0, 1]
    assert len(events(rounds(THEIRS, **signature))) == 5
    as_written = tf.data.Options()
    as_written.experimental_optimization.shuffle_and_repeat_fusion = False
    assert sorted(events(rounds(THEIRS, **signature).with_options(as_written))) == [0, 1]

"""Where feedline differs from tf.data on purpose: what docs/reference/tf-data.md numbers, on both sides."""

from __future__ import annotations

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow", reason="TensorFlow, the oracle, is not installed")

from feedline import Dataset, FeedlineError, Ragged  # noqa: E402

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

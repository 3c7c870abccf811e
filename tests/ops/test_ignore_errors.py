"""ignore_errors: what fails is dropped, and the rest comes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from feedline import Dataset, FixedLenFeature, UsageError, _native, example
from feedline.graph import INFINITE, Node, Stream
from feedline.spec import ArraySpec
from feedline.testing import Failed, assert_same, check_errors, check_laws
from tests.ops import oracle
from tests.ops.oracle import tf


def fail_for_threes(x):
    if x % 3 == 0:
        raise Failed(f"{x}")
    return x


def numbers(dataset):
    return [int(x) for x in dataset]


def test_it_drops_what_fails_as_in_tf_datas_documentation():
    theirs = tf.data.Dataset.from_tensor_slices([1.0, 2.0, 0.0, 4.0])
    theirs = theirs.map(lambda x: tf.debugging.check_numerics(1.0 / x, "")).ignore_errors()

    def invert(x):
        if x == 0:
            raise ZeroDivisionError
        return np.float32(1) / x

    ours = Dataset.from_tensor_slices([1.0, 2.0, 0.0, 4.0]).map(invert).ignore_errors()
    oracle.assert_same_elements(ours, theirs)


def test_nothing_is_left_where_all_fail():
    ours = Dataset.range(5).map(lambda x: 1 // 0).ignore_errors()
    for dataset in (ours, ours.repeat(2)):
        with pytest.warns(RuntimeWarning, match="no element is left"):
            assert list(dataset) == []


@pytest.mark.parametrize(
    "step",
    [
        lambda ds: ds,
        lambda ds: ds.batch(2),
        lambda ds: ds.filter(lambda x: x % 2 == 0),
        lambda ds: ds.window(3, 1).flat_map(lambda w: w.batch(3)),
        lambda ds: ds.group_by_window(lambda x: x % 2, lambda k, g: g.batch(2), 2),
        lambda ds: ds.scan(np.int64(0), lambda s, x: (s + x, s)),
        lambda ds: ds.take_while(lambda x: x < 11),
        lambda ds: ds.map(lambda x: x // 2).unique(),
        lambda ds: ds.skip(2),
        lambda ds: ds.take(4),
        lambda ds: ds.enumerate(),
        lambda ds: ds.repeat(2),
        lambda ds: ds.shard(2, 1),
        lambda ds: ds.prefetch(2),
    ],
)
def test_after_any_step_the_same_is_left_as_in_tf_data(step):
    # One after another: of indexed elements, skip and shard do not compute those that they leave out.
    ours = step(Dataset.range(14).filter(lambda x: True).map(fail_for_threes)).ignore_errors()
    theirs = step(tf.data.Dataset.range(14).map(oracle.fail_at((0, 3, 6, 9, 12)))).ignore_errors()
    as_written = tf.data.Options()  # a batch that is fused with a map loses its other elements, too
    as_written.experimental_optimization.apply_default_optimizations = False
    oracle.assert_same_elements(ours, theirs.with_options(as_written))


def test_damaged_records_are_dropped_and_those_after_them_are_not(tmp_path):
    data = bytearray(b"".join(_native.frame(b"record %d" % number) for number in range(6)))
    data[len(data) // 6 * 2 + 14] ^= 1
    path = tmp_path / "a.tfrecord"
    path.write_bytes(data)
    whole = [b"record %d" % number for number in (0, 1, 3, 4, 5)]
    assert list(Dataset.from_tfrecords(path).ignore_errors()) == whole
    theirs = tf.data.TFRecordDataset(str(path)).ignore_errors()
    assert list(theirs.as_numpy_iterator()) == whole[:2]  # it gives up the file


def test_records_that_do_not_fit_the_features_are_dropped(tmp_path):
    payloads = [example.encode({"x": [number]}) for number in range(6)]
    payloads[1], payloads[4] = b"no example", example.encode({"x": [0.5]})
    path = tmp_path / "a.tfrecord"
    path.write_bytes(b"".join(map(_native.frame, payloads)))
    theirs = tf.data.TFRecordDataset(str(path)).map(
        lambda one: tf.io.parse_single_example(one, {"x": tf.io.FixedLenFeature([], tf.int64)})
    )
    ours = Dataset.from_tfrecords(path, {"x": FixedLenFeature((), "int64")})
    assert_same(ours.ignore_errors(), theirs.ignore_errors().as_numpy_iterator())


def test_each_error_is_told_of_when_wanted():
    dataset = Dataset.range(5).map(fail_for_threes).ignore_errors(log_warning=True)
    with pytest.warns(RuntimeWarning, match="ignore_errors, added at .* dropped: Failed: [03]") as told:
        assert numbers(dataset) == [1, 2, 4]
    assert len(told) == 2
    assert "in map, added at" in str(told[1].message)
    assert numbers(Dataset.range(5).map(fail_for_threes).ignore_errors(log_warning=False)) == [1, 2, 4]


class Stuck(Stream):
    def next(self, limit):
        raise Failed("always")

    def state(self):
        return 0


@dataclass(frozen=True, eq=False)
class StuckNode(Node):
    def open(self, context, state):
        return Stuck()

    def cardinality(self):
        return INFINITE

    def spec(self, peek):
        return None


def test_an_input_that_cannot_go_on_is_not_asked_for_ever():
    with pytest.raises(Failed, match="always"):
        list(Dataset(StuckNode()).ignore_errors())


def test_cardinality_is_unknown_as_in_tf_data():
    for step in (lambda ds: ds.range(0), lambda ds: ds.range(3), lambda ds: ds.range(3).repeat()):
        ours, theirs = (step(ds).ignore_errors() for ds in (Dataset, tf.data.Dataset))
        assert ours.cardinality() == int(theirs.cardinality())


def test_the_spec_is_that_of_the_input_also_where_the_first_elements_fail():
    assert Dataset.range(6).batch(2).ignore_errors().element_spec == ArraySpec((None,), np.dtype("int64"))
    failing = Dataset.range(6).map(fail_for_threes).batch(2).ignore_errors()
    assert failing.element_spec.dtype == np.dtype("int64")


def test_interrupts_are_not_ignored():
    def interrupt(x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(Dataset.range(3).map(interrupt).ignore_errors())


def test_it_obeys_the_laws():
    check_laws(lambda ds: ds.ignore_errors(), Dataset.range(9))
    found = check_errors(lambda ds: ds.ignore_errors(), Dataset.range(12))
    assert [int(event[1]) for event in found] == [1, 2, 5, 6, 7, 8, 10, 11]
    check_errors(lambda ds: ds.shuffle(4, seed=1).ignore_errors(), Dataset.range(12))
    check_errors(lambda ds: ds.window(2, 1).flat_map(lambda w: w.batch(2)).ignore_errors(), Dataset.range(12))


def to_float(x):
    return np.float32(x) if isinstance(x, np.generic) else tf.cast(x, tf.float32)


MISTAKES = {
    "a name that is not there": lambda D: D.range(5).map(lambda x: undefined_name),  # noqa: F821
    "no result": lambda D: D.range(5).map(lambda x: None),
    "a number for a predicate": lambda D: D.range(5).filter(lambda x: x),
    "no dataset": lambda D: D.range(5).flat_map(lambda x: x),
    "no pair": lambda D: D.range(5).scan(np.int64(0), lambda s, x: x),
    "scalars": lambda D: D.range(5).map(lambda x: x).unbatch(),
    "a value of another dtype": lambda D: (
        D.range(5).map(to_float).padded_batch(2, padding_values=np.int64(1))
    ),
    "datasets of two dtypes": lambda D: D.range(3).concatenate(D.range(3).map(to_float)),
    "a choice of two dtypes": lambda D: D.choose_from_datasets(
        [D.range(2), D.range(2).map(to_float)], D.range(2).repeat(2)
    ),
    "a key of another dtype": lambda D: (
        D.range(3).map(to_float).group_by_window(lambda x: x, lambda k, g: g, 2)
    ),
}


@pytest.mark.parametrize("pipeline", MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes_of_the_program_are_not_ignored_as_in_tf_data(pipeline):
    refused = (TypeError, ValueError, NameError, AttributeError, tf.errors.InvalidArgumentError)
    with pytest.raises(refused):
        pipeline(tf.data.Dataset).ignore_errors()
    with pytest.raises((UsageError, NameError)):
        list(pipeline(Dataset).ignore_errors())


UNFIT = {
    "shapes of a batch": lambda D, some: D.range(1, 4).map(some).batch(2),
    "a shape to fill up to": lambda D, some: D.range(1, 4).map(some).padded_batch(1, [2]),
    "rows of an element": lambda D, some: D.range(1, 4).map(lambda x: (some(x), some(2))).unbatch(),
    "a choice": lambda D, some: D.choose_from_datasets([D.range(9)], D.range(2)),
}


@pytest.mark.parametrize("pipeline", UNFIT.values(), ids=UNFIT.keys())
def test_elements_that_do_not_fit_are_dropped_as_in_tf_data(pipeline):
    ours = pipeline(Dataset, lambda x: np.zeros(x)).ignore_errors()
    theirs = pipeline(tf.data.Dataset, lambda x: tf.zeros([x], tf.float64)).ignore_errors()
    oracle.assert_same_elements(ours, theirs)


OF_ELEMENTS = {
    "a size of 0": lambda D: D.range(3).flat_map(lambda x: D.range(4).batch(x)),
    "a step of 0": lambda D: D.range(3).flat_map(lambda x: D.range(0, 4, x - 1)),
    "no single element": lambda D: D.range(3).map(lambda x: D.range(x).get_single_element()),
}


@pytest.mark.parametrize("pipeline", OF_ELEMENTS.values(), ids=OF_ELEMENTS.keys())
def test_arguments_that_follow_from_an_element_are_its_own_fault_as_in_tf_data(pipeline):
    ours, theirs = (pipeline(D).ignore_errors() for D in (Dataset, tf.data.Dataset))
    oracle.assert_same_elements(ours, theirs)


def test_who_loses_all_elements_is_told_why():
    dataset = Dataset.range(3).map(lambda x: {"a": x}["b"]).ignore_errors()
    with pytest.warns(
        RuntimeWarning, match=r"no element is left, all 3 failed. The first: KeyError: 'b'"
    ) as told:
        assert list(dataset) == []
    assert len(told) == 1
    assert "in map, added at" in str(told[0].message)

"""window: which elements come in which small dataset."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from feedline import Dataset, UsageError
from feedline.graph import Context
from feedline.spec import ArraySpec, DatasetSpec
from feedline.testing import check_errors, check_laws, same
from tests.ops import oracle
from tests.ops.oracle import tf

INT64 = ArraySpec((), np.dtype("int64"))


def lists(windows):
    return [[element.tolist() for element in window] for window in windows]


def test_windows_follow_one_another_and_the_last_is_shorter():
    assert lists(Dataset.range(7).window(3)) == [[0, 1, 2], [3, 4, 5], [6]]


def expected(count, size, shift, stride, drop):
    """What tf.data gives, in a line."""
    reach = (size - 1) * stride + 1
    begins = range(0, count, shift or size)
    return [list(range(b, count)[:reach:stride]) for b in begins if not drop or b + reach <= count]


@pytest.mark.parametrize(
    "arguments",
    [(7, 3, None, 1, False), (7, 3, 1, 2, True), (7, 3, 1, 2, False), (7, 2, 5, 1, True), (2, 3, 1, 1, True)],
)
def test_windows_are_those_of_tf_data(arguments):
    theirs = tf.data.Dataset.range(arguments[0]).window(*arguments[1:])
    assert lists(map(tf.data.Dataset.as_numpy_iterator, theirs)) == expected(*arguments)
    ours = Dataset.range(arguments[0]).window(*arguments[1:])
    assert lists(ours) == expected(*arguments)
    assert ours.cardinality() == int(theirs.cardinality())


def test_windows_of_any_size_shift_and_stride():
    for arguments in product((0, 1, 2, 7, 8), (1, 2, 3, 9), (None, 1, 2, 5, 20), (1, 2, 4), (False, True)):
        count, *rest = arguments
        dataset = Dataset.range(count)
        wanted = expected(*arguments)
        assert lists(dataset.window(*rest)) == wanted, arguments
        assert dataset.window(*rest).cardinality() == len(wanted), arguments
        # The same where elements can only be had one after another.
        assert lists(dataset.filter(lambda x: True).window(*rest)) == wanted, arguments


def test_a_window_may_be_longer_than_anything_that_can_be_counted():
    for arguments in ((2**62, None, 3), (2**62, 1, 3), (2, 2**62)):
        theirs = tf.data.Dataset.range(7).window(*arguments)
        wanted = lists(map(tf.data.Dataset.as_numpy_iterator, theirs))
        assert lists(Dataset.range(7).window(*arguments)) == wanted
        assert lists(Dataset.range(7).filter(lambda x: True).window(*arguments)) == wanted


def test_of_a_tuple_or_a_dict_there_is_a_window_for_each_part():
    tree = {"a": [1, 2, 3], "b": (["x", "y", "z"], [[1.0], [2.0], [3.0]])}
    ours, theirs = (ds.from_tensor_slices(tree).window(2) for ds in (Dataset, tf.data.Dataset))
    for one, other in zip(ours, theirs, strict=True):
        assert one.keys() == other.keys()
        pairs = [(one["a"], other["a"]), (one["b"][0], other["b"][0]), (one["b"][1], other["b"][1])]
        for mine, yours in pairs:
            assert isinstance(mine, Dataset)
            assert same(tuple(mine), tuple(yours.as_numpy_iterator()))


def test_windows_are_flattened_as_in_tf_datas_documentation():
    ours, theirs = (
        ds.range(7).window(3, shift=1, drop_remainder=True).flat_map(lambda w: w.batch(3))
        for ds in (Dataset, tf.data.Dataset)
    )
    oracle.assert_same_elements(ours, theirs)
    ours, theirs = (
        ds.from_tensor_slices(([1, 2, 3, 4, 5], [6, 7, 8, 9, 10]))
        .window(2)
        .flat_map(lambda a, b, ds=ds: ds.zip((a.batch(2), b.batch(2))))
        for ds in (Dataset, tf.data.Dataset)
    )
    oracle.assert_same_elements(ours, theirs)


def test_windows_of_windows():
    ours, theirs = (
        ds.range(10).window(2).window(2).flat_map(lambda w: w.flat_map(lambda inner: inner.batch(9)))
        for ds in (Dataset, tf.data.Dataset)
    )
    oracle.assert_same_elements(ours, theirs)


def test_cardinality_of_inputs_that_are_infinite_or_unknown():
    for step in (lambda ds: ds.repeat(), lambda ds: ds.filter(lambda x: x > 2)):
        ours, theirs = (step(ds.range(5)).window(3, 2).cardinality() for ds in (Dataset, tf.data.Dataset))
        assert ours == int(theirs)
    assert next(iter(Dataset.range(5).window(3))).cardinality() == 3


def test_the_spec_is_a_dataset_for_each_leaf():
    assert Dataset.range(7).window(3).element_spec == DatasetSpec(INT64)
    both = Dataset.range(7).map(lambda x: {"x": x, "y": (x, x)}).window(3).element_spec
    assert both == {"x": DatasetSpec(INT64), "y": (DatasetSpec(INT64), DatasetSpec(INT64))}
    theirs = tf.data.Dataset.range(7).window(3).element_spec
    assert theirs == tf.data.DatasetSpec(tf.TensorSpec((), tf.int64))


def test_a_window_has_the_spec_of_its_input_not_only_of_its_own_elements():
    ours, theirs = (list(ds.range(5).batch(2).window(2))[-1] for ds in (Dataset, tf.data.Dataset))
    assert list(theirs.element_spec.shape) == [None]
    assert ours.element_spec == ArraySpec((None,), np.dtype("int64"))


def test_a_window_that_needs_an_element_that_failed_fails_too_and_others_do_not():
    for arguments in ((3,), (3, 1), (2, 1, 2), (2, 5), (3, 3, 2, True)):
        ours = check_errors(lambda ds, a=arguments: ds.window(*a), Dataset.range(12))
        theirs = oracle.events(iter(oracle.failing_range(12).window(*arguments)))
        assert list(map(plain, ours)) == list(map(plain, theirs)), arguments


def plain(event):
    return [int(x) for x in event[1]] if event[0] == "element" else "failed"


@pytest.mark.parametrize("arguments", [(3,), (4, 1), (2, 5), (3, 2, 3), (3, 2, 2, True)])
def test_it_obeys_the_laws(arguments):
    check_laws(lambda ds: ds.window(*arguments), Dataset.range(11))
    check_laws(lambda ds: ds.filter(lambda x: x != 4).window(*arguments), Dataset.range(11))


def test_it_obeys_the_laws_with_arrays_that_users_write_into():
    rows = np.arange(24.0).reshape(8, 3)
    check_laws(lambda ds: ds.window(3, 1), Dataset.from_tensor_slices((rows, ["x"] * 8)))
    flat = lambda ds: ds.window(3, 1).flat_map(lambda w: w)  # noqa: E731
    check_laws(flat, Dataset.from_tensor_slices(rows))
    check_laws(flat, Dataset.from_tensor_slices(rows).map(lambda row: row + 1))


def test_the_state_is_small_and_leads_back_only_as_far_as_needed():
    asked = []

    def ask(x):
        asked.append(int(x))
        return True

    dataset = Dataset.range(40_000).filter(ask).window(10, 1)
    windows = iter(dataset)
    for _ in range(35_000):
        next(windows)
    state = windows.state_dict()
    assert len(str(state)) < 400
    asked.clear()
    again = iter(dataset)
    again.load_state_dict(state)
    assert lists([next(again)]) == [list(range(35_000, 35_010))]
    assert min(asked) > 35_000 - 3 * Context.block_rows


@pytest.mark.parametrize("name", ["size", "shift", "stride"])
@pytest.mark.parametrize("value", [0, -1, 1.5, "a"])
def test_sizes_must_be_positive_integers(name, value):
    arguments = {"size": 2, "shift": 2, "stride": 2, name: value}
    with pytest.raises((ValueError, TypeError, tf.errors.InvalidArgumentError)):
        tf.data.Dataset.range(3).window(**arguments)
    with pytest.raises(UsageError, match=rf"window\({name}="):
        Dataset.range(3).window(**arguments)

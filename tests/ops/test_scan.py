"""scan: the state that goes from element to element, and how it is saved."""

from __future__ import annotations

import json

import ml_dtypes
import numpy as np
import pytest

from feedline import Dataset, Ragged, UsageError
from feedline.spec import ArraySpec
from feedline.testing import Failed, assert_same, check_errors, check_laws
from tests.ops import oracle
from tests.ops.oracle import tf


def total(state, x):
    return state + x, state + x


def test_running_totals_as_in_tf_datas_documentation():
    oracle.assert_same_elements(
        Dataset.range(10).scan(np.int64(0), total),
        tf.data.Dataset.range(10).scan(tf.constant(0, tf.int64), total),
    )


def test_state_and_element_are_two_arguments_whatever_they_are():
    def function(state, element):
        low, high = state
        x, y = element
        return (low - x, high + x), {"low": low, "y": y, "pair": (high, x)}

    for_both = np.arange(5.0), np.arange(5)
    ours, theirs = (
        ds.from_tensor_slices(for_both).scan((np.float64(0), np.float64(9)), function)
        for ds in (Dataset, tf.data.Dataset)
    )
    oracle.assert_same_elements(ours, theirs)


def test_the_pair_may_be_a_list_and_lists_inside_of_it_are_arrays_as_in_tf_data():
    for function in (lambda s, x: [s + x, x], lambda s, x: (s + x, [x, s]), lambda s, x: [s, [x, s]]):
        ours, theirs = (D.range(4).scan(np.int64(0), function) for D in (Dataset, tf.data.Dataset))
        oracle.assert_same_elements(ours, theirs)


def test_python_numbers_in_the_first_state_are_as_narrow_as_in_tf_data():
    ours, theirs = (
        ds.range(3).scan((0, 0.0), lambda state, x: (state, state)) for ds in (Dataset, tf.data.Dataset)
    )
    oracle.assert_same_elements(ours, theirs)
    assert ours.element_spec == (ArraySpec((), np.dtype("int32")), ArraySpec((), np.dtype("float32")))


def test_the_shape_of_a_state_may_change():
    oracle.assert_same_elements(
        Dataset.range(4).scan(np.zeros(0, "int64"), lambda s, x: (np.append(s, x), s)),
        tf.data.Dataset.range(4).scan(np.zeros(0, "int64"), lambda s, x: (tf.concat([s, [x]], 0), s)),
    )


def test_cardinality_is_that_of_the_input():
    for step in (lambda ds: ds.range(5), lambda ds: ds.range(5).repeat(), lambda ds: ds.range(5).filter(any)):
        assert step(Dataset).scan(0, lambda s, x: (s, x)).cardinality() == step(Dataset).cardinality()


def test_a_state_keeps_its_dtypes_and_structure():
    for first, function in [
        (0, total),  # int32 + int64
        (np.int64(0), lambda s, x: (float(s), x)),
        ((np.int64(0),), lambda s, x: (s[0], x)),
        (b"", lambda s, x: (x, x)),
    ]:
        with pytest.raises(UsageError, match="initial_state"):
            list(Dataset.range(3).scan(first, function))
    with pytest.raises((TypeError, ValueError)):
        tf.data.Dataset.range(3).scan(0, total)


def test_a_function_must_return_a_pair():
    for function in (lambda s, x: s, lambda s, x: [s], lambda s, x: (s, x, x), lambda s, x: None):
        with pytest.raises(UsageError, match="a pair"):
            list(Dataset.range(3).scan(np.int64(0), function))
    with pytest.raises(TypeError):
        tf.data.Dataset.range(3).scan(np.int64(0), lambda s, x: s)


def test_a_state_must_be_data():
    with pytest.raises(UsageError, match=r"initial_state\[1\]: a state is made of arrays"):
        Dataset.range(3).scan((0, Dataset.range(2)), lambda s, x: (s, x))
    with pytest.raises(UsageError, match="function"):
        Dataset.range(3).scan(0, None)


@pytest.mark.parametrize("first", [None, (np.int64(0), None), {"a": {"b": None}}, (), {}], ids=repr)
def test_none_and_nothing_are_no_states_as_in_tf_data(first):
    theirs = (TypeError, tf.errors.InvalidArgumentError)
    for dataset, refused in ((Dataset, UsageError), (tf.data.Dataset, theirs)):
        with pytest.raises(refused):
            dataset.range(3).scan(first, lambda state, x: (state, x))
        with pytest.raises(refused):
            dataset.range(3).reduce(first, lambda state, x: state)


def test_the_first_state_is_not_changed_by_whoever_holds_the_array():
    first = np.zeros(2, "int64")
    dataset = Dataset.range(3).scan(first, total)
    first[0] = 5
    assert list(dataset)[-1].tolist() == [3, 3]

    def in_place(state, x):
        state[0] = x
        return state, x

    with pytest.raises(ValueError, match="read-only"):
        list(Dataset.range(3).scan(first, in_place))
    assert first.flags.writeable


STATES = [
    np.array(5),
    np.float32("nan"),
    np.int64(-(2**63)),
    np.bool_(True),
    np.complex128(1 - 2j),
    ml_dtypes.bfloat16(1.5),
    np.arange(6, dtype="uint16").reshape(3, 2),
    np.arange(6.0).reshape(2, 3).T,
    np.zeros((0, 3), "int8"),
    np.zeros((2, 2), ml_dtypes.float8_e5m2),
    b"\x00bytes\xff",
    np.array([b"a", b"", b"\x00\xff"], object).reshape(3, 1),
    np.zeros((0,), object),
    Ragged([1.5, 2.5, 3.5], [0, 2, 2, 3]),
    Ragged(Ragged(np.array([b"x", b"yz"], object), [0, 1, 2]), [0, 0, 2]),
    ({"a": np.int8(1)}, (b"c",)),
]


@pytest.mark.parametrize("first", STATES, ids=repr)
def test_any_state_goes_through_json_unchanged(first):
    dataset = Dataset.range(3).scan(first, lambda state, x: (state, (state, x)))
    rows = iter(dataset)
    (state, _) = next(rows)
    saved = json.loads(json.dumps(rows.state_dict()))
    again = iter(dataset)
    again.load_state_dict(saved)
    assert_same([one for one, _ in again], [state, state])


def test_what_fails_leaves_the_state_as_it_was_as_in_tf_data():
    bad = (2, 7, 10)

    def function(state, x):
        if x in bad:
            raise Failed(f"{x}")
        return state + x, state

    ours = check_errors(lambda ds: ds.scan(np.int64(100), function), Dataset.range(12))
    check = oracle.fail_at(bad)
    theirs = oracle.failing_range(12).scan(np.int64(100), lambda s, x: (s + check(x), s))
    oracle.assert_same_events(ours, theirs)


def test_an_element_of_another_dtype_is_refused_and_the_state_stays():
    def function(state, x):
        return state + x, (np.float32(0) if x == 2 else x)

    rows = iter(Dataset.range(5).scan(np.int64(0), function))
    assert [int(next(rows)), int(next(rows))] == [0, 1]
    with pytest.raises(UsageError, match="float32 here, and was int64"):
        next(rows)
    assert [int(x) for x in rows] == [3, 4]
    assert rows.state_dict()["position"] is not None


def test_an_error_says_where_it_comes_from():
    with pytest.raises(ZeroDivisionError) as caught:
        list(Dataset.range(5).scan(0, lambda s, x: (s, 1 // (3 - int(x)))))
    assert "scan, added at" in caught.value.__notes__[0]
    assert "element 3" in caught.value.__notes__[0]


def test_it_obeys_the_laws():
    check_laws(lambda ds: ds.scan(np.int64(0), lambda s, x: (s + x, (s, x))), Dataset.range(20))
    check_laws(
        lambda ds: ds.scan(np.zeros(3), lambda s, x: (s * 0.5 + x, s)),
        Dataset.range(20).filter(lambda x: x > 3),
    )
    check_laws(lambda ds: ds.scan(b"", lambda s, x: (s + b"%d" % x, s)).repeat(2), Dataset.range(8))


def test_a_function_may_use_the_memory_of_its_result_again():
    buffer = np.zeros(2, np.int64)

    def function(state, x):
        buffer[:] = x
        return state, (buffer, {"y": buffer[:1]})

    expected = [(np.full(2, x), {"y": np.full(1, x)}) for x in range(50)]
    assert_same(Dataset.range(50).scan(0, function), expected)

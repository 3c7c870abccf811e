"""What users get wrong: each error says where, what, and what to do next."""

from __future__ import annotations

import threading
import traceback

import numpy as np
import pytest

from feedline import Dataset, Ragged, UsageError


def line_of(function, offset: int) -> str:
    return f"{__file__}:{function.__code__.co_firstlineno + offset}"


def fails_at_7(x):
    if x == 7:
        raise KeyError("no such label")
    return x


STEPS = {
    "map": lambda: Dataset.range(20).map(fails_at_7),
    "filter": lambda: Dataset.range(20).filter(lambda x: fails_at_7(x) is not None),
    "flat_map": lambda: Dataset.range(20).flat_map(lambda x: Dataset.from_tensors(fails_at_7(x))),
    "interleave": lambda: Dataset.range(20).interleave(lambda x: Dataset.from_tensors(fails_at_7(x)), 1),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("then", ["", "prefetch", "batch, skip and prefetch"])
def test_a_users_exception_arrives_as_itself_with_its_place(step, then):
    dataset = STEPS[step]()
    if then == "prefetch":
        dataset = dataset.prefetch(3)
    elif then:
        dataset = dataset.batch(2).skip(1).prefetch(1)
    rows = iter(dataset)
    given = []
    with pytest.raises(KeyError, match="no such label") as caught:
        given.extend(row for element in rows for row in np.ravel(element).tolist())
    assert given == (list(range(7)) if then in ("", "prefetch") else list(range(2, 6)))
    line = STEPS[step].__code__.co_firstlineno
    assert caught.value.__notes__ == [
        f"  in {step}, added at {__file__}:{line}, at element 7 of its input (counted from 0)"
    ]
    assert caught.value.args == ("no such label",)
    shown = "".join(traceback.format_exception(caught.value))
    assert "in fails_at_7" in shown  # the user's own line is in the traceback, from another thread too


def test_errors_of_several_elements_each_name_their_own():
    rows = iter(Dataset.range(6).map(lambda x: 6 // int(x % 2)).prefetch(2))
    for number in (0, 2, 4):
        with pytest.raises(ZeroDivisionError) as caught:
            next(rows)
        assert f"at element {number} of its input" in caught.value.__notes__[0]
        next(rows)
    assert list(rows) == []


def test_an_error_in_an_inner_dataset_names_the_inner_step():
    inner = Dataset.range(5).map(lambda x: 1 // int(x - 3))
    with pytest.raises(ZeroDivisionError) as caught:
        list(Dataset.range(2).flat_map(lambda i: inner).batch(2))
    here = line_of(test_an_error_in_an_inner_dataset_names_the_inner_step, 1)
    assert caught.value.__notes__ == [
        f"  in map, added at {here}, at element 3 of its input (counted from 0)"
    ]


def test_no_error_comes_out_of_a_thread_alone(monkeypatch):
    lost = []
    monkeypatch.setattr(threading, "excepthook", lost.append)
    with iter(Dataset.range(9).map(lambda x: 1 // int(x - 3)).prefetch(2).prefetch(2)) as rows:
        assert [next(rows) for _ in range(3)] == [-1, -1, -1]
        with pytest.raises(ZeroDivisionError):
            next(rows)
    assert lost == []


def test_another_structure_is_refused():
    def changing(x):
        return {"a": x, "b": (x, x)} if x < 3 else {"a": x, "b": (x, x, x)}

    dataset = Dataset.range(5).map(changing)
    rows = iter(dataset)
    assert len([next(rows) for _ in range(3)]) == 3
    with pytest.raises(UsageError) as caught:
        next(rows)
    assert str(caught.value) == (
        'element["b"]: this element has another structure than those before it, '
        "{'a': *, 'b': (*, *, *)} instead of {'a': *, 'b': (*, *)} (* is a leaf).\n"
        "  Every element of a dataset must have the same tuples, dict keys and Nones."
    )
    here = line_of(test_another_structure_is_refused, 4)
    assert caught.value.__notes__ == [
        f"  in map, added at {here}, at element 3 of its input (counted from 0)"
    ]


STRUCTURES = {
    "a key more": {"a": 1, "b": 2},
    "another key": {"b": 1},
    "a tuple": (1,),
    "None": None,
    "None inside": {"a": None},
    "a leaf": 1,
}


@pytest.mark.parametrize("other", STRUCTURES.values(), ids=STRUCTURES.keys())
def test_every_other_structure_is_refused(other):
    rows = iter(Dataset.range(5).map(lambda x: other if x == 2 else {"a": 1}))
    assert [next(rows), next(rows)] == [{"a": 1}, {"a": 1}]
    with pytest.raises(UsageError, match="another structure"):
        next(rows)
    assert len(list(rows)) == 2


@pytest.mark.parametrize(
    ("first", "other", "text"),
    [
        (1, 1.5, "element is float32 here, and was int32 in the elements before"),
        (np.int64(1), np.float64(1), "element is float64 here, and was int64 in the elements before"),
        (1, "1", "element is string here, and was int32 in the elements before"),
        (np.zeros(2), np.zeros(2, "complex64"), "element is complex64 here, and was float64"),
        (
            Ragged([1, 2], [0, 2]),
            np.zeros((1, 2), "int32"),
            "element is int32 here, and was a Ragged of int32",
        ),
        (
            (b"x", True),
            (b"x", np.uint8(1)),
            r"element\[1\] is uint8 here, and was bool in the elements before",
        ),
    ],
)
def test_another_dtype_is_refused(first, other, text):
    for dataset in (
        Dataset.range(5).map(lambda x: other if x == 2 else first),
        Dataset.range(6).map(lambda x: other if x == 3 else first).skip(1),
    ):
        rows = iter(dataset)
        next(rows), next(rows)
        with pytest.raises(UsageError, match=text) as caught:
            next(rows)
        assert ", added at " in str(caught.value)


def test_what_to_do_about_another_dtype():
    with pytest.raises(UsageError) as caught:
        list(Dataset.range(5).map(lambda x: x if x < 3 else x / 2))
    here = line_of(test_what_to_do_about_another_dtype, 2)
    assert str(caught.value) == (
        f"map, added at {here}: element is float64 here, and was int64 in the elements before.\n"
        "  Every element of a dataset must have the same dtypes: convert all elements, say with "
        "np.asarray(x, 'float64')."
    )


@pytest.mark.parametrize(
    ("values", "advice"),
    [
        ([1, 2**40], "convert all elements, say with np.asarray(x, 'int64')."),
        ([2**40, 1], "convert it, say with np.asarray(x, 'int64')."),
        ([0.5, 1e300], "convert all elements, say with np.asarray(x, 'float64')."),
        ([1, 2**63], "convert it."),
        ([1, "a"], "convert it."),
    ],
)
def test_the_advised_dtype_holds_every_value(values, advice):
    for dataset in (
        Dataset.from_generator(lambda: iter(values)),
        Dataset.range(2).map(lambda x: values[x]),
    ):
        with pytest.raises(UsageError) as caught:
            list(dataset)
        assert str(caught.value).endswith(f"must have the same dtypes: {advice}")


@pytest.mark.parametrize(
    ("first", "new", "advice"),
    [
        (0, 2**40, "convert initial_state, say with np.asarray(initial_state, 'int64')."),
        (0, 0.5, "convert initial_state, say with np.asarray(initial_state, 'float64')."),
        (2**40, 1, "convert new_state, say with np.asarray(new_state, 'int64')."),
        (0, "a", "return the dtype of initial_state."),
    ],
)
def test_the_advised_dtype_of_a_state_holds_every_value(first, new, advice):
    with pytest.raises(UsageError) as caught:
        Dataset.range(2).reduce(first, lambda state, x: new)
    assert str(caught.value).endswith(f"A state keeps its dtypes: {advice}")


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        (np.int64(7), "Give np.asarray(7, 'int32')."),
        (
            2**40,
            "Give a value that int32 can hold, which 1099511627776 is not, or convert the elements in map(), "
            "with np.asarray(x, 'int64').",
        ),
        (0.5, "which 0.5 is not, or convert the elements in map(), with np.asarray(x, 'float64')."),
        ("a", "Give a number, as int32."),
    ],
)
def test_the_advised_dtype_holds_the_padding_value(value, advice):
    with pytest.raises(UsageError) as caught:
        list(Dataset.from_tensor_slices([[1, 2]]).padded_batch(2, [3], value))
    assert str(caught.value).endswith(advice)


def test_a_missing_return_is_told():
    with pytest.raises(UsageError) as caught:
        list(Dataset.range(5).map(lambda x: None))
    here = line_of(test_a_missing_return_is_told, 2)
    assert str(caught.value) == (
        f"map, added at {here}: the function returned None, and an element needs one array at least.\n"
        "  Perhaps a `return` is missing."
    )


def test_what_cannot_be_an_array_is_refused():
    with pytest.raises(UsageError) as caught:
        list(Dataset.range(2).map(lambda x: {"a": [[1, 2], [3]]}))
    assert str(caught.value) == (
        'element["a"]: the rows of this list have different lengths.\n'
        "  Give it as feedline.Ragged(values, offsets), or pad it."
    )
    assert "at element 0 of its input" in caught.value.__notes__[0]


CONSTRUCTIONS = {
    "a take of '2'": lambda: Dataset.range(3).take("2"),
    "a skip of None": lambda: Dataset.range(3).skip(None),
    "a repeat of True": lambda: Dataset.range(3).repeat(True),
    "a batch of 0": lambda: Dataset.range(3).batch(0),
    "a batch of '3'": lambda: Dataset.range(3).batch("3"),
    "half an element": lambda: Dataset.range(3).take(2.5),
    "map without a function": lambda: Dataset.range(3).map(None),
    "filter by a list": lambda: Dataset.range(3).filter([True]),
    "zip of nothing": lambda: Dataset.zip(),
    "zip of numbers": lambda: Dataset.zip(1, 2),
    "concatenate with a list": lambda: Dataset.range(3).concatenate([1]),
    "shard 3 of 3": lambda: Dataset.range(3).shard(3, 3),
    "prefetch of -2": lambda: Dataset.range(3).prefetch(-2),
    "a cycle of 0": lambda: Dataset.range(3).interleave(Dataset.range, 0),
    "slices of a number": lambda: Dataset.from_tensor_slices(3),
    "a step of 0": lambda: Dataset.range(1, 2, 0),
}


@pytest.mark.parametrize("construction", CONSTRUCTIONS.values(), ids=CONSTRUCTIONS.keys())
def test_what_cannot_be_meant_is_refused_at_construction(construction):
    with pytest.raises(UsageError):
        construction()


def test_an_empty_dataset_cannot_tell_its_spec():
    here = line_of(test_an_empty_dataset_cannot_tell_its_spec, 3)
    with pytest.raises(UsageError) as caught:
        Dataset.range(0).map(lambda x: x).element_spec  # noqa: B018
    assert str(caught.value) == (
        f"map, added at {here}: there is no element that could tell the element_spec.\n"
        "  Functions are called, not traced, so only their results tell it. Ask the same pipeline over data "
        "that is not empty."
    )


@pytest.mark.parametrize("given", [0, -2, 2.5, "2", True])
def test_numbers_of_parallel_calls_are_checked(given, tmp_path):
    (tmp_path / "empty.tfrecord").touch()
    for step, make in {
        "batch(num_parallel_calls": lambda: Dataset.range(3).batch(2, num_parallel_calls=given),
        "map(num_parallel_calls": lambda: Dataset.range(3).map(str, num_parallel_calls=given),
        "from_tfrecords(num_parallel_reads": lambda: Dataset.from_tfrecords(
            tmp_path / "empty.tfrecord", num_parallel_reads=given
        ),
    }.items():
        with pytest.raises(UsageError) as caught:
            make()
        assert str(caught.value).startswith(f"{step}={given!r}): must be an int from 1 to 2**31 - 1")

"""interleave and flat_map."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feedline import AUTOTUNE, Dataset, Ragged, UsageError
from feedline.graph import Context
from feedline.run import LocalServices
from feedline.run.cores import usable_cores
from feedline.testing import check_errors, check_laws
from tests.ops.sources import every_source
from tests.tfdata import both, both_refuse


def ranges(D, lengths, **how):
    """Dataset i gives 100 * i, 100 * i + 1, ..., as many as lengths[i]."""
    begins = np.arange(len(lengths)) * 100
    source = D.from_tensor_slices((begins, begins + np.array(lengths, np.int64)))
    return source.interleave(lambda begin, end: D.range(begin, end), **how)


LENGTHS = st.lists(st.integers(0, 7), min_size=1, max_size=9)
TURNS = {"lengths": LENGTHS, "cycle_length": st.integers(1, 11), "block_length": st.integers(1, 5)}


@given(**TURNS)
@settings(max_examples=80)
def test_turns_are_those_of_tf_data(lengths, cycle_length, block_length):
    both(lambda D: ranges(D, lengths, cycle_length=cycle_length, block_length=block_length))


@given(**TURNS, calls=st.integers(1, 3))
@settings(max_examples=40)
def test_turns_made_in_parallel_are_those_of_tf_data(lengths, cycle_length, block_length, calls):
    calls = min(calls, cycle_length)
    how = {"num_parallel_calls": calls, "deterministic": True}
    both(lambda D: ranges(D, lengths, cycle_length=cycle_length, block_length=block_length, **how))


@given(**TURNS)
@settings(max_examples=25)
def test_turns_are_the_same_whatever_the_size_of_blocks(lengths, cycle_length, block_length):
    check_laws(
        lambda ds: ranges(Dataset, lengths, cycle_length=cycle_length, block_length=block_length),
        Dataset.range(0),
        most=20,
    )


PIPELINES = {
    # tf.data's own examples
    "blocks of 4": lambda D: D.range(1, 6).interleave(
        lambda x: D.from_tensors(x).repeat(6), cycle_length=2, block_length=4
    ),
    "flat_map": lambda D: D.from_tensor_slices([[1, 2, 3], [4, 5, 6], [7, 8, 9]]).flat_map(
        D.from_tensor_slices
    ),
    "a cycle of 3": lambda D: D.range(4).interleave(lambda i: D.range(i, i + 4), cycle_length=3),
    "of nothing": lambda D: D.range(0).interleave(lambda i: D.range(i), cycle_length=3),
    "of empty ones": lambda D: D.range(4).interleave(lambda i: D.range(0), cycle_length=3),
    "pairs": lambda D: D.zip(D.range(3), D.range(3)).flat_map(
        lambda a, b: D.zip(D.range(a), D.range(b).repeat(2))
    ),
    "a dict": lambda D: D.range(4).flat_map(lambda i: D.from_tensors({"a": i, "b": (i, "text")}).repeat(2)),
    "infinite ones": lambda D: (
        D.range(3).interleave(lambda i: D.range(i, i + 2).repeat(), cycle_length=2).take(20)
    ),
    "for ever": lambda D: D.range(3).repeat().interleave(lambda i: D.range(i), cycle_length=2).take(20),
    "nested": lambda D: D.range(4).interleave(
        lambda i: D.range(i + 1).interleave(lambda j: D.range(j, j + 3), cycle_length=2, block_length=2),
        cycle_length=3,
    ),
    "of filtered ones": lambda D: D.range(4).flat_map(
        lambda i: D.range(9).filter(lambda x: x % (i + 1) == i)
    ),
}


@pytest.mark.parametrize("pipeline", PIPELINES.values(), ids=PIPELINES.keys())
def test_interleave_gives_what_tf_data_gives(pipeline):
    both(pipeline)


@every_source
def test_interleave_obeys_the_laws(source):
    check_laws(lambda ds: Dataset.range(4).interleave(lambda i: ds.skip(i).take(3), 3, 2), source)
    check_laws(lambda ds: ds.flat_map(lambda *x: Dataset.from_tensors(x).repeat(2)), source.take(4))


def test_long_datasets_are_cut_into_blocks():
    both(lambda D: ranges(D, [1500, 10, 1100, 0, 1200], cycle_length=3, block_length=2), most=5000)


def test_the_cycle_is_as_long_as_there_are_cores():
    both(lambda D: D.range(9).interleave(lambda i: D.range(i * 10, i * 10 + 3)))
    both(lambda D: D.range(9).interleave(lambda i: D.range(i * 10, i * 10 + 3), cycle_length=AUTOTUNE))
    assert sorted(Dataset.range(9).interleave(Dataset.range, -1)) == sorted(
        Dataset.range(9).flat_map(Dataset.range)
    )


@pytest.mark.parametrize("cycle_length", [None, AUTOTUNE])
@pytest.mark.parametrize("calls", [1, 2, AUTOTUNE])
def test_a_cycle_that_is_left_open_is_as_long_as_in_tf_data(cycle_length, calls):
    if calls == 2 and usable_cores() < 2:
        pytest.skip("tf.data refuses more calls than there are cores")

    def four_of_each(D):
        numbers = D.from_tensor_slices([4, 5, 6, 7])
        return numbers.interleave(lambda x: D.from_tensors(x).repeat(4), cycle_length, 3, calls)

    found = both(four_of_each)
    if calls == 1:
        assert found == [4, 4, 4, 4, 5, 5, 5, 5, 6, 6, 6, 6, 7, 7, 7, 7]


def test_a_cycle_of_more_calls_than_cores_does_not_depend_on_the_machine():
    def four_of_each(cycle_length, calls):
        return list(Dataset.range(9).interleave(lambda x: Dataset.range(x, x + 4), cycle_length, 3, calls))

    assert four_of_each(None, 7) == four_of_each(7, None)


def test_in_parallel_an_infinite_input_makes_an_infinite_dataset_as_in_tf_data():
    for calls in (None, 1, AUTOTUNE):
        for repeats in (1, None):
            both(
                lambda D, calls=calls, repeats=repeats: (
                    D.range(3)
                    .repeat(repeats)
                    .interleave(lambda i: D.range(2), cycle_length=2, num_parallel_calls=calls)
                ),
                most=20,
            )


def test_errors_come_in_their_place():
    source = Dataset.range(12)
    for step in (
        lambda ds: ds.interleave(lambda i: Dataset.range(i), 3, 2),
        lambda ds: Dataset.range(3).interleave(lambda i: ds, 2, 2),
        lambda ds: Dataset.range(4).interleave(lambda i: ds.skip(i).take(4), 3, 1),
        lambda ds: Dataset.range(4).interleave(lambda i: ds.map(lambda x: x), 5, 1),
    ):
        check_errors(step, source, most=25)


def test_ragged_rows_stay_ragged():
    ragged = Dataset.from_tensor_slices(Ragged(np.arange(6), [0, 1, 3, 6]))
    dataset = Dataset.range(2).interleave(lambda i: ragged.skip(i), cycle_length=2).batch(2)
    assert [batch.to_list() for batch in dataset] == [[[0], [1, 2]], [[1, 2], [3, 4, 5]], [[3, 4, 5]]]
    check_laws(lambda ds: dataset, Dataset.range(0))


def test_a_function_that_fails_says_so():
    rows = iter(Dataset.range(3).interleave(lambda i: Dataset.range(6 // int(i)), cycle_length=1))
    with pytest.raises(ZeroDivisionError) as caught:
        next(rows)
    assert caught.value.__notes__[0].startswith("  in interleave, added at ")
    assert caught.value.__notes__[0].endswith(", at element 0 of its input (counted from 0)")
    assert len(list(rows)) == 9


@pytest.mark.parametrize("made", [5, None, [1, 2], (1, 2)])
def test_the_function_must_return_a_dataset(made):
    both_refuse(lambda D: list(D.range(3).flat_map(lambda i: made)))
    with pytest.raises(UsageError) as caught:
        list(Dataset.range(3).flat_map(lambda i: made))
    assert str(caught.value) == (
        f"flat_map: the function must return a feedline Dataset, not {type(made).__name__}."
    )


def test_datasets_of_other_kinds_are_refused():
    for other, text in [
        (Dataset.from_tensor_slices([1.5]), "element is float32 here, and was int64 in the elements before"),
        (Dataset.from_tensors((1, 2)), "elements have the structure"),
    ]:
        rows = iter(Dataset.range(3).flat_map(lambda i, other=other: other if i == 1 else Dataset.range(2)))
        assert [next(rows), next(rows)] == [0, 1]
        with pytest.raises(UsageError, match=f"^flat_map, added at .*: {text}"):
            next(rows)
        assert list(rows) == [0, 1]


REFUSED = [
    {"cycle_length": 0},
    {"cycle_length": -2},
    {"block_length": 0},
    {"block_length": -1},
    {"cycle_length": "2"},
    {"cycle_length": 2, "block_length": 1.5},
    {"num_parallel_calls": 0},
    {"cycle_length": 2, "num_parallel_calls": 3},
]


@pytest.mark.parametrize("how", REFUSED, ids=str)
def test_interleave_refuses_what_tf_data_refuses(how):
    both_refuse(lambda D: D.range(3).interleave(lambda i: D.range(i), **how))


@pytest.mark.parametrize(
    ("how", "text"),
    [
        (
            {"cycle_length": 0},
            "interleave(cycle_length=0): must be at least 1, or AUTOTUNE or None.",
        ),
        ({"block_length": 0}, "interleave(block_length=0): 1 at least."),
        ({"block_length": "1"}, "interleave(block_length='1'): block_length must be an int, not str."),
    ],
)
def test_interleave_says_what_is_wrong(how, text):
    with pytest.raises(UsageError) as caught:
        Dataset.range(3).interleave(Dataset.range, **how)
    assert str(caught.value) == text


def test_interleave_wants_a_function():
    for dataset in (lambda D: D.range(3).flat_map(None), lambda D: D.range(3).interleave(5)):
        both_refuse(dataset)
    with pytest.raises(UsageError, match=r"^flat_map\(None\): give a function of one element, not NoneType"):
        Dataset.range(3).flat_map(None)


def test_of_large_rows_few_are_held_at_a_time():
    """However many are asked for: a block of picked rows holds what they lie in."""
    row = 1 << 16
    read = []

    def rows(number):
        return Dataset.range(200).map(lambda x: read.append(x) or np.zeros(row, np.uint8))

    context = Context(LocalServices(), block_bytes=4 * row)
    stream = context.open(Dataset.range(3).interleave(rows, cycle_length=3)._node)
    block = stream.next(4096)
    assert block.rows <= 32
    assert len(read) < 150
    stream.close()

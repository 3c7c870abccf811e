"""bucket_by_sequence_length: which elements come together, in which order, filled up to what."""

from __future__ import annotations

import random

import numpy as np
import pytest

from feedline import Dataset, Ragged, UsageError
from feedline.spec import ArraySpec
from feedline.testing import Failed, check_errors, check_laws
from tests.ops import oracle
from tests.tfdata import both, both_refuse

tf = oracle.tf

INT32 = np.dtype("int32")
DOCUMENTED = [[0], [1, 2, 3, 4], [5, 6, 7], [7, 8, 9, 10, 11], [13, 14, 15, 16, 19, 20], [21, 22]]


def size(D):
    """The length of an element's first part."""
    return (lambda x, *_: len(x)) if D is Dataset else (lambda x, *_: tf.shape(x)[0])


def generated(D, elements, *signature):
    specs = tuple(tf.TensorSpec(shape, dtype) for shape, dtype in signature or (([None], "int32"),))
    return D.from_generator(lambda: elements, output_signature=specs[0] if len(specs) == 1 else specs)


def of_lengths(*lengths):
    return [np.full(length, number, "int32") for number, length in enumerate(lengths)]


def rows_of(D, *lengths):
    return generated(D, of_lengths(*lengths))


def chosen(seed, count, longest):
    dice = random.Random(seed)
    return [dice.randint(0, longest) for _ in range(count)]


# As tf.data documents it


def test_elements_of_like_length_come_together():
    found = both(lambda D: generated(D, DOCUMENTED).bucket_by_sequence_length(size(D), [3, 5], [2, 2, 2]))
    assert [batch.tolist() for batch in found] == [
        [[1, 2, 3, 4], [5, 6, 7, 0]],
        [[7, 8, 9, 10, 11, 0], [13, 14, 15, 16, 19, 20]],
        [[0, 0], [21, 22]],
    ]


@pytest.mark.parametrize("drop", [False, True])
def test_they_may_be_filled_up_to_the_boundary(drop):
    found = both(
        lambda D: generated(D, DOCUMENTED).bucket_by_sequence_length(
            size(D), [4, 7], [2, 2, 2], pad_to_bucket_boundary=True, padding_values=-1, drop_remainder=drop
        )
    )
    assert [batch.tolist() for batch in found][:2] == [
        [[0, -1, -1], [5, 6, 7]],
        [[1, 2, 3, 4, -1, -1], [7, 8, 9, 10, 11, -1]],
    ]
    assert len(found) == (2 if drop else 4)


# Order and remainders


@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize(
    ("boundaries", "sizes"),
    [
        ([4, 8, 12], [3, 2, 4, 1]),
        ([], [3]),
        ([5, 5], [2, 9, 3]),
        ([9, 3], [2, 2, 3]),
    ],
    ids=str,
)
def test_batches_and_their_order_are_those_of_tf_data(boundaries, sizes, drop):
    lengths = chosen(1, 40, 14)
    both(
        lambda D: rows_of(D, *lengths).bucket_by_sequence_length(
            size(D), boundaries, sizes, drop_remainder=drop
        )
    )


def test_an_empty_input_gives_nothing():
    both(lambda D: rows_of(D).bucket_by_sequence_length(size(D), [3], [2, 2]))


def test_the_length_may_be_anything_that_a_function_tells():
    elements = [(np.full(n, n, "int32"), np.int32(n), b"x" * n) for n in chosen(2, 20, 9)]
    signature = ([None], "int32"), ([], "int32"), ([], tf.string)
    both(
        lambda D: generated(D, elements, *signature).bucket_by_sequence_length(
            lambda ids, number, text: number % 5, [1, 2], [3, 2, 2]
        )
    )
    lines = {"a": np.arange(6, dtype="int32"), "b": np.arange(12).reshape(6, 2)}
    both(lambda D: D.from_tensor_slices(lines).bucket_by_sequence_length(lambda x: x["a"], [2], [3, 2]))


# Shapes


def test_shapes_and_values_are_passed_on():
    elements = [(np.full(n, n, "int32"), np.full((n, n % 2), n, "float32")) for n in chosen(3, 20, 6)]
    signature = ([None], "int32"), ([None, None], "float32")
    for shapes, boundary in (
        (([7], [None, None]), False),
        (([None], [None, 3]), True),
        ([], False),
    ):
        both(
            lambda D, shapes=shapes, boundary=boundary: generated(
                D, elements, *signature
            ).bucket_by_sequence_length(
                size(D), [3, 7], [2, 3, 1], shapes, (-1, None), pad_to_bucket_boundary=boundary
            )
        )


def test_dimensions_of_a_known_size_are_not_filled_up_to_the_boundary():
    elements = [(np.full((n, 2), n, "int32"), np.zeros(3, "float32")) for n in chosen(4, 20, 6)]
    signature = ([None, 2], "int32"), ([3], "float32")
    found = both(
        lambda D: generated(D, elements, *signature).bucket_by_sequence_length(
            size(D), [3, 9], [2, 3, 1], pad_to_bucket_boundary=True
        )
    )
    # The same where the first elements tell it.
    told = Dataset.from_generator(lambda: elements).bucket_by_sequence_length(
        size(Dataset), [3, 9], [2, 3, 1], pad_to_bucket_boundary=True
    )
    for one, other in zip(told, found, strict=True):
        assert one[0].tolist() == other[0].tolist()
        assert one[1].shape == other[1].shape


def test_where_the_first_elements_told_wrong_shapes_are_asked_for():
    def dataset(shapes):
        return (
            Dataset.range(40)
            .map(lambda i: np.ones(3 if i < 20 else 5))
            .bucket_by_sequence_length(len, [4, 9], [4, 4, 4], shapes, pad_to_bucket_boundary=True)
        )

    rows = iter(dataset(None))
    assert [next(rows).shape for _ in range(5)] == [(4, 3)] * 5
    with pytest.raises(UsageError, match="padded_shapes"):
        next(rows)
    assert [batch.shape for batch in dataset([None])] == [(4, 3)] * 5 + [(4, 8)] * 5


def test_without_padding_they_must_have_equal_shapes():
    def step(D, lengths):
        return rows_of(D, *lengths).bucket_by_sequence_length(size(D), [3, 5], [2, 2, 2], no_padding=True)

    both(lambda D: step(D, [1, 3, 6, 1, 3, 6, 1]))
    both(lambda D: step(D, [1, 3, 2]))
    with pytest.raises(UsageError, match="must have equal shapes") as caught:
        list(step(Dataset, [6, 1, 3, 2]))
    assert "whose first is element 1 of the input" in caught.value.__notes__[0]
    ragged = (
        Dataset.range(5)
        .map(lambda n: Ragged(np.arange(n), [0, n]))
        .bucket_by_sequence_length(lambda x: len(x.values), [2], [2, 2], no_padding=True)
    )
    assert [batch.to_list() for batch in ragged] == [[[[]], [[0]]], [[[0, 1]], [[0, 1, 2]]], [[[0, 1, 2, 3]]]]


@pytest.mark.parametrize("drop", [False, True])
def test_with_the_boundary_all_must_be_shorter_than_the_last(drop):
    def step(D):
        return rows_of(D, 1, 9, 2, 9, 1, 1, 8).bucket_by_sequence_length(
            size(D), [3], [2, 2], pad_to_bucket_boundary=True, drop_remainder=drop
        )

    assert [kind for kind, *_ in oracle.events(step(tf.data.Dataset).as_numpy_iterator(), 3)] == [
        "element",
        "failed",
        "element",
    ]
    rows = iter(step(Dataset))
    assert next(rows).shape == (2, 2)
    with pytest.raises(UsageError, match="element 1 is as long as the last boundary"):
        next(rows)
    assert next(rows).shape == (2, 2)
    with pytest.raises(UsageError, match="element 6 is as long"):
        next(rows)
    assert list(rows) == []


# Spec and cardinality


def test_cardinality_is_unknown_unless_the_input_is_infinite():
    for count in (None, 2, 0):
        both(
            lambda D, n=count: (
                D.from_tensor_slices(np.arange(3, dtype="int32"))
                .repeat(n)
                .bucket_by_sequence_length(lambda x: x, [1], [2, 2])
            ),
            most=5,
        )


def test_the_size_of_batches_is_not_in_the_spec():
    for options in ({}, {"drop_remainder": True}, {"pad_to_bucket_boundary": True}, {"no_padding": True}):
        made = rows_of(Dataset, 1).bucket_by_sequence_length(len, [3], [2, 2], **options)
        theirs = rows_of(tf.data.Dataset, 1).bucket_by_sequence_length(
            size(tf.data.Dataset), [3], [2, 2], **options
        )
        assert made.element_spec == ArraySpec((None, None), INT32)
        assert theirs.element_spec.shape.as_list() == [None, None]
    given = rows_of(Dataset, 1).bucket_by_sequence_length(len, [3], [2, 2], [7])
    assert given.element_spec == ArraySpec((None, 7), INT32)


# What is refused


@pytest.mark.parametrize("sizes", [[2], [2, 2, 2], []], ids=str)
def test_there_is_a_size_for_each_bucket(sizes):
    error = both_refuse(lambda D: rows_of(D, 1).bucket_by_sequence_length(size(D), [3], sizes))
    assert "make 2 buckets" in str(error)


@pytest.mark.parametrize(
    "arguments",
    [
        (len, [3], [2, 0]),
        (len, [3], [2, 2**63]),
        (len, [3], [2, "a"]),
        (len, 3, [2, 2]),
        (None, [3], [2, 2]),
        (len, [0.5], [2, 2]),
    ],
    ids=str,
)
def test_arguments_that_cannot_be_meant_are_refused(arguments):
    with pytest.raises(UsageError, match="bucket_by_sequence_length"):
        rows_of(Dataset, 1).bucket_by_sequence_length(*arguments)


def test_shapes_and_values_are_checked_at_once():
    both_refuse(lambda D: rows_of(D, 1).bucket_by_sequence_length(size(D), [3], [2, 2], [None, None]))
    both_refuse(
        lambda D: rows_of(D, 1).bucket_by_sequence_length(size(D), [3], [2, 2], padding_values=np.int64(1))
    )


@pytest.mark.parametrize("length", ["a", None, np.zeros(2), 1.5, [1]], ids=str)
def test_a_length_must_be_an_integer(length):
    with pytest.raises(UsageError, match="element_length_func must return an integer") as caught:
        list(Dataset.range(3).bucket_by_sequence_length(lambda x: length, [3], [2, 2]))
    assert "element 0 of its input" in caught.value.__notes__[0]


# Errors and laws


def test_failing_elements_are_in_no_bucket_as_in_tf_data():
    ours = check_errors(
        lambda ds: ds.bucket_by_sequence_length(lambda x: x % 5, [2], [3, 4]), Dataset.range(24)
    )
    theirs = oracle.failing_range(24).bucket_by_sequence_length(
        lambda x: tf.cast(x % 5, tf.int32), [2], [3, 4]
    )
    oracle.assert_same_events(ours, theirs)


def test_elements_whose_length_fails_are_in_no_bucket_as_in_tf_data():
    bad = (2, 5, 6, 15)

    def length(x):
        if x in bad:
            raise Failed(f"length of {x}")
        return x % 5

    ours = check_errors(lambda ds: ds.bucket_by_sequence_length(length, [2], [3, 4]), Dataset.range(24))
    check = oracle.fail_at(bad)
    theirs = oracle.failing_range(24).bucket_by_sequence_length(
        lambda x: tf.cast(check(x) % 5, tf.int32), [2], [3, 4]
    )
    oracle.assert_same_events(ours, theirs)


@pytest.mark.parametrize("drop", [False, True])
def test_it_obeys_the_laws(drop):
    def step(ds):
        return ds.bucket_by_sequence_length(len, [3, 6, 9], [2, 3, 2, 4], drop_remainder=drop)

    source = Dataset.from_tensor_slices(Ragged(np.arange(228), np.cumsum([0, *chosen(5, 36, 12)])))
    assert 10 < len(check_laws(step, source)) < 30
    check_laws(lambda ds: step(ds.shuffle(10, seed=3)), source)
    check_laws(lambda ds: step(ds.filter(lambda x: len(x) != 4)).repeat(2), source.take(20))


def test_it_obeys_the_laws_with_each_option():
    source = Dataset.from_generator(lambda: of_lengths(*chosen(6, 24, 8)))
    for options in (
        {"pad_to_bucket_boundary": True},
        {"no_padding": True},
        {"padded_shapes": [12], "padding_values": np.int32(-1)},
    ):
        check_laws(
            lambda ds, options=options: ds.filter(lambda x: len(x) in (2, 5)).bucket_by_sequence_length(
                len, [3, 9], [3, 2, 2], **options
            ),
            source,
            whole_spec=False,
        )


def test_a_rare_length_costs_neither_memory_nor_state():
    dataset = (
        Dataset.range(300_000).batch(100).bucket_by_sequence_length(lambda x: 0 if x[0] else 9, [5], [2, 2])
    )
    rows = iter(dataset)
    for _ in range(1400):
        next(rows)
    state = rows.state_dict()
    assert len(str(state)) < 500
    resumed = iter(dataset)
    resumed.load_state_dict(state)
    assert np.array_equal(next(resumed), next(rows))
    assert sum(len(batch) for batch in resumed) == 3000 - 2802


def test_boundaries_are_found_also_where_the_first_elements_fail():
    def vector(n):
        if n < 3:
            raise Failed(f"{n}")
        return np.full(n % 3 + 1, n)

    how = {"bucket_boundaries": [3, 5], "bucket_batch_sizes": [2, 2, 2], "pad_to_bucket_boundary": True}
    dataset = Dataset.range(9).map(vector).bucket_by_sequence_length(len, **how)
    assert [batch.shape for batch in dataset.ignore_errors()] == [(2, 2), (2, 2), (2, 4)]

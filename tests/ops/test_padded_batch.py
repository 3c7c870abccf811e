"""padded_batch: to which shapes elements are filled up, with what, and what is refused."""

from __future__ import annotations

from collections import namedtuple
from functools import partial

import ml_dtypes
import numpy as np
import pytest

from feedline import Dataset, Ragged, UsageError
from feedline.graph import Context
from feedline.run import LocalServices
from feedline.spec import ArraySpec, RaggedSpec
from feedline.testing import check_errors, check_laws
from tests.ops import oracle, sources
from tests.tfdata import both, both_refuse

tf = oracle.tf

INT32 = np.dtype("int32")
Point = namedtuple("Point", ["x", "y"])


def lengths(D, *sizes):
    """Rows of these lengths, filled with them."""

    def full(n):
        return np.full(n, n) if D is Dataset else tf.fill([n], n)

    return D.from_tensor_slices(np.array(sizes, "int32")).map(full)


def generated(D, elements, *signature):
    specs = tuple(tf.TensorSpec(shape, dtype) for shape, dtype in signature)
    return D.from_generator(lambda: elements, output_signature=specs[0] if len(specs) == 1 else specs)


# As tf.data documents it


def test_each_batch_is_filled_up_to_its_longest():
    found = both(lambda D: lengths(D, 1, 2, 3, 4).padded_batch(2))
    assert [batch.tolist() for batch in found] == [[[1, 0], [2, 2]], [[3, 3, 3, 0], [4, 4, 4, 4]]]


def test_a_size_and_a_value_can_be_given():
    both(lambda D: lengths(D, 1, 2, 3, 4).padded_batch(2, padded_shapes=5))
    both(lambda D: lengths(D, 1, 2, 3, 4).padded_batch(2, padded_shapes=5, padding_values=-1))


def test_each_part_of_an_element_has_its_own_shape_and_value():
    elements = [([1, 2, 3], [10]), ([4, 5], [11, 12])]
    both(
        lambda D: generated(D, elements, ([None], "int32"), ([None], "int32")).padded_batch(
            2, padded_shapes=([4], [None]), padding_values=(-1, 100)
        )
    )


def test_one_value_serves_all_parts():
    both(lambda D: D.zip((lengths(D, 1, 2, 3), lengths(D, 3, 1, 2))).padded_batch(2, padding_values=-1))


# Shapes


@pytest.mark.parametrize("drop_remainder", [False, True])
@pytest.mark.parametrize("count", [0, 1, 5])
def test_the_last_batch_is_short_or_dropped(count, drop_remainder):
    sizes = [3, 0, 1, 2, 2, 5][:count]
    for size in (2, 9):
        both(lambda D, size=size: lengths(D, *sizes).padded_batch(size, drop_remainder=drop_remainder))


SHAPES = [None, [None, None], [-1, 6], (4, None), np.array([5, 6]), tf.TensorShape([None, 7])]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_several_dimensions_may_change(shape):
    elements = [np.full((i * 7 % 4, i * 3 % 5), i, "float32") for i in range(1, 12)]
    made = both(lambda D: generated(D, elements, ([None, None], "float32")).padded_batch(3, shape))
    assert len(made) == 4
    # And where all but the first are the same, and where all are.
    for known in ([None, 3], [2, 3]):
        alike = [np.full((known[0] or i % 3, 3), i, "int16") for i in range(8)]
        both(lambda D, known=known, alike=alike: generated(D, alike, (known, "int16")).padded_batch(3, shape))


def test_scalars_and_what_has_no_values_are_batched_too():
    both(lambda D: D.range(5).padded_batch(2))
    both(lambda D: D.range(5).padded_batch(2, []))
    both(lambda D: D.from_tensor_slices(np.zeros((5, 0, 2))).padded_batch(2))
    both(lambda D: D.from_tensor_slices(np.zeros((5, 0, 2))).padded_batch(2, [3, None], np.float64(7)))
    both(lambda D: lengths(D, 0, 0, 0).padded_batch(2))


@pytest.mark.parametrize("shape", [None, [None], [4]], ids=str)
@pytest.mark.parametrize("value", [None, b"", "pad", b"\0\xff"])
def test_strings_are_filled_up(shape, value):
    elements = [[b"a" * j + b"\0" for j in range(i % 4)] for i in (1, 3, 0, 2, 7, 5, 0)]
    rows = [np.array(element, object) for element in elements]
    both(lambda D: generated(D, rows, ([None], tf.string)).padded_batch(3, shape, value))
    both(lambda D: D.from_tensor_slices(np.array([["x", "yy"]] * 5)).padded_batch(2, shape, value))
    both(lambda D: D.from_tensor_slices(["x", "yy", "zzz"]).padded_batch(2, padding_values=value))


def test_strings_whose_dimensions_all_change_are_filled_up():
    rows = [np.full((i % 3, i % 2), b"s" * i, object) for i in range(7)]
    for shape, value in ((None, None), ([3, None], "pad")):
        both(
            lambda D, shape=shape, value=value: generated(D, rows, ([None, None], tf.string)).padded_batch(
                3, shape, value
            )
        )


@pytest.mark.parametrize(
    "dtype",
    [
        "bool",
        "int8",
        "uint16",
        "uint32",
        "uint64",
        "float16",
        "float64",
        "complex64",
        "complex128",
        "bfloat16",
    ],
)
def test_every_dtype_is_filled_up_with_its_zero_or_a_value_of_its_own(dtype):
    plain = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    rows = [np.full((i % 4, 2), i, plain) for i in range(7)]
    for value in (None, plain.type(1)):
        both(
            lambda D, value=value: generated(D, rows, ([None, 2], dtype)).padded_batch(
                3, [None, 3], padding_values=value
            )
        )


def test_trees_of_any_kind_have_trees_of_shapes_and_values():
    def tree(D):
        parts = {"b": (lengths(D, 1, 3, 2), lengths(D, 2, 0, 1)), "a": D.from_tensor_slices([1.0, 2.0, 3.0])}
        return D.zip(parts)

    both(lambda D: tree(D).padded_batch(2, {"a": [], "b": ([None], 4)}))
    both(lambda D: tree(D).padded_batch(2, padding_values={"a": None, "b": (None, -1)}))
    both(lambda D: tree(D).padded_batch(2, padding_values={"b": None, "a": 5.0}))

    def named(D):
        return D.zip(Point(lengths(D, 1, 3, 2), lengths(D, 2, 0, 1)))

    both(lambda D: named(D).padded_batch(2, Point([None], [3]), Point(-1, None)))


def test_cardinality_is_that_of_batch():
    for count in (None, 0, 2):
        for drop in (False, True):
            both(
                lambda D, n=count, drop=drop: D.range(5).repeat(n).padded_batch(2, drop_remainder=drop),
                most=9,
            )
    assert Dataset.range(5).filter(lambda x: True).padded_batch(2).cardinality() == -2


def test_the_spec_is_what_the_shapes_say():
    source = generated(Dataset, [], ([None, 3], "int32"))
    assert source.padded_batch(2).element_spec == ArraySpec((None, None, 3), INT32)
    assert source.padded_batch(2, drop_remainder=True).element_spec == ArraySpec((2, None, 3), INT32)
    assert source.padded_batch(2, [4, None]).element_spec == ArraySpec((None, 4, None), INT32)


# Where the rows lie


def test_batches_of_one_size_are_made_a_block_at_a_time():
    dataset = Dataset.from_tensor_slices(Ragged(np.arange(300), np.arange(0, 301, 3))).padded_batch(2, [5])
    stream = Context(LocalServices()).open(dataset._node)
    first, second = stream.next(1000), stream.next(1000)
    assert (first.rows, second.rows) == (1, 49)
    assert second.row(0).tolist() == [[6, 7, 8, 0, 0], [9, 10, 11, 0, 0]]


def test_rows_of_ragged_batches_and_variable_features_can_be_filled_up():
    rows = Dataset.from_tensors(sources.RAGGED).unbatch()
    assert isinstance(rows.element_spec, RaggedSpec)
    assert rows.padded_batch(2).element_spec == ArraySpec((None, None), np.dtype("int16"))
    assert [batch.tolist() for batch in rows.padded_batch(4)] == [
        [[0, 1, 0], [0, 0, 0], [2, 3, 4], [5, 0, 0]],
        [[0, 0], [6, 0], [7, 8]],
    ]


def test_equal_rows_are_not_copied():
    values = np.arange(12).reshape(6, 2)
    for batch in Dataset.from_tensor_slices(values).padded_batch(2):
        assert np.shares_memory(batch, values)


def test_what_was_filled_up_is_aligned():
    for batch in lengths(Dataset, 1, 2, 3, 4).padded_batch(2):
        assert batch.ctypes.data % 64 == 0


# What is refused


@pytest.mark.parametrize("batch_size", [0, -1])
def test_a_batch_has_one_element_at_least(batch_size):
    error = both_refuse(lambda D: D.range(3).padded_batch(batch_size))
    assert "1 element at least" in str(error)


@pytest.mark.parametrize(
    "shapes",
    [[2], [3, 4], [], ([3],), {"a": [3]}, [[3]], "abc", 2.5, [-2], [None, 3, 3]],
    ids=str,
)
def test_shapes_must_fit_the_elements(shapes):
    error = both_refuse(lambda D: D.from_tensor_slices(np.zeros((4, 3))).padded_batch(2, shapes))
    assert "padded_batch(padded_shapes)" in str(error)


@pytest.mark.parametrize(
    "shapes", [[3], ([3],), ([3], [3], [3]), [[3], [3]], ([3], {"a": 3}), ([3], None)], ids=str
)
def test_shapes_must_have_the_structure_of_the_elements(shapes):
    both_refuse(lambda D: D.from_tensor_slices((np.zeros((4, 3)), np.zeros((4, 3)))).padded_batch(2, shapes))


@pytest.mark.parametrize(
    "values", [1, 1.0, np.int32(1), "a", [np.int64(1)], (np.int64(1),), {"a": None}], ids=repr
)
def test_values_must_have_the_structure_and_the_dtypes_of_the_elements(values):
    error = both_refuse(lambda D: D.range(3).padded_batch(2, padding_values=values))
    assert "padded_batch(padding_values)" in str(error)


def test_the_error_says_how_to_give_a_value_of_the_right_dtype():
    with pytest.raises(UsageError, match="the value for element is int32, and the elements have int64"):
        Dataset.range(3).padded_batch(2, padding_values=-1)
    with pytest.raises(UsageError, match=r"np.asarray\(-1, 'int64'\)"):
        list(Dataset.range(3).map(lambda x: x).padded_batch(2, padding_values=-1))


def test_elements_of_unknown_rank_need_shapes():
    rows = [np.ones(i) for i in range(4)]
    error = both_refuse(lambda D: generated(D, rows, (None, "float64")).padded_batch(2))
    assert "padded_shapes" in str(error)
    both(lambda D: generated(D, rows, (None, "float64")).padded_batch(2, [None]))


def test_none_cannot_be_filled_up():
    error = both_refuse(lambda D: D.from_tensor_slices((np.arange(3), None)).padded_batch(2))
    assert "hold None" in str(error)
    with pytest.raises(UsageError, match="hold None"):
        list(Dataset.range(3).map(lambda x: {"a": x, "b": None}).padded_batch(2))


def test_ragged_elements_and_datasets_cannot_be_filled_up():
    ragged = tf.ragged.constant([[1, 2], [3]])
    with pytest.raises(TypeError):
        tf.data.Dataset.from_tensors(ragged).padded_batch(2)
    with pytest.raises(UsageError, match="element is Ragged"):
        Dataset.from_tensors(Ragged([1, 2, 3], [0, 2, 3])).padded_batch(2)
    with pytest.raises(UsageError, match="only arrays"):
        list(Dataset.range(3).map(lambda x: Ragged([1, 2, 3], [0, 2, 3])).padded_batch(2))
    error = both_refuse(lambda D: D.range(5).window(2).padded_batch(2))
    assert "only arrays" in str(error)


def test_an_element_that_is_too_large_fails_with_its_batch_and_the_others_come():
    rows = [np.full(n, n) for n in (1, 2, 5, 1, 2, 0, 1, 9)]

    def step(D):
        return generated(D, rows, ([None], "int64")).padded_batch(2, [4])

    assert [kind for kind, *_ in oracle.events(step(tf.data.Dataset).as_numpy_iterator())] == [
        "element",
        "failed",
        "element",
        "failed",
    ]
    for rows_of_block in (1, 3, 1024):
        stream = Context(LocalServices(), block_rows=rows_of_block).open(step(Dataset)._node)
        assert stream.next(9).row(0).tolist() == [[1, 0, 0, 0], [2, 2, 0, 0]]
        with pytest.raises(
            UsageError, match=r"element 2 has ArraySpec\(\(5,\), int64\) at element, which cannot be"
        ):
            stream.next(9)
        assert stream.next(9).row(0).tolist() == [[2, 2, 0, 0], [0, 0, 0, 0]]
        with pytest.raises(UsageError, match="element 7 has"):
            stream.next(9)
        assert stream.next(9) is None


def test_elements_of_another_rank_fail():
    rows = [np.ones(3), np.ones((2, 2))]
    both(lambda D: generated(D, rows, (None, "float64")).padded_batch(2, [None]))
    with pytest.raises(UsageError, match=r"element 1 has .* and the first of its batch has"):
        list(Dataset.from_generator(lambda: rows).padded_batch(2))


def test_the_rank_may_change_from_batch_to_batch():
    batches = Dataset.range(6).map(lambda i: np.full((2,) * (i // 2), i)).padded_batch(2)
    assert [batch.shape for batch in batches] == [(2,), (2, 2), (2, 2, 2)]
    assert next(iter(batches)).tolist() == [0, 1]


def test_failing_elements_take_those_before_them_in_their_batch_along_as_in_tf_data():
    def step(ds):
        return ds.padded_batch(3)

    ours = check_errors(step, Dataset.range(16))
    oracle.assert_same_events(ours, step(oracle.failing_range(16)))


# Laws


@pytest.mark.parametrize(
    "name", [name for name in sources.SOURCES if name not in ("ragged twice", "whole ragged")]
)
def test_it_obeys_the_laws(name):
    source = sources.SOURCES[name]
    if name == "nested":
        source = source.map(lambda x: {"b": (x["b"][0], x["b"][2]), "a": ()})
    if name == "changing ranks":
        source = source.filter(lambda x: x.ndim == 2)
    check_laws(lambda ds: ds.padded_batch(2), source, whole_spec=False)


@pytest.mark.parametrize("drop", [False, True])
def test_it_obeys_the_laws_with_shapes_and_values(drop):
    source = Dataset.from_tensor_slices((sources.RAGGED, np.arange(7.0)))
    values = (np.int16(-1), None)
    step = partial(Dataset.padded_batch, batch_size=3, padded_shapes=([4], []), padding_values=values)
    elements = check_laws(lambda ds: step(ds, drop_remainder=drop), source)
    assert elements[0][0].tolist() == [[0, 1, -1, -1], [-1, -1, -1, -1], [2, 3, 4, -1]]
    check_laws(lambda ds: step(ds.shuffle(4, seed=1), drop_remainder=drop).repeat(2), source)

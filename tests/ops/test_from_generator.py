"""from_generator: what generators may yield, what a signature makes of it, and when they run and stop."""

from __future__ import annotations

import json
from collections import namedtuple
from itertools import count, islice

import numpy as np
import pytest

from feedline import UNKNOWN_CARDINALITY, Dataset, Ragged, UsageError
from feedline.graph import Context
from feedline.run import LocalServices
from feedline.spec import STRING, ArraySpec, ObjectSpec, RaggedSpec
from feedline.testing import Failed, assert_same, check_laws
from tests.tfdata import both_refuse, check_spec, compare, tensorflow

Point = namedtuple("Point", ["x", "y"])


def yielding(*values):
    def generator():
        yield from values

    return generator


def trees(number):
    for i in range(number):
        yield {"a": i, "b": np.full(i % 3, i, np.int64)}, "x" * i


def ragged_pairs():
    for i in range(6):
        yield i, Ragged(np.arange(i, dtype=np.int32), [0, i // 2, i])


# Against tf.data


def both_generate(values, signature):
    tf = tensorflow()
    theirs = tf.data.Dataset.from_generator(yielding(*values), output_signature=signature(tf))
    ours = Dataset.from_generator(yielding(*values), output_signature=signature(tf))
    compare(ours, theirs)


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast", "ignore:Casting complex values")
@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (1.7, "int32"),
        (3, "float32"),
        (np.float64(1) / 3, "float32"),
        (300, "uint8"),
        (2, "bool"),
        ("3", "int32"),
        ("three", "int32"),
        (None, "float32"),
        (None, "int32"),
        (1j, "float32"),
        (1j, "complex64"),
        (1.5, "bfloat16"),
        (float("nan"), "int32"),
        (np.array(5, ">i4"), "int32"),
        ("ä", "string"),
        (b"a\0", "string"),
        (np.str_("a"), "string"),
        (5, "string"),
        (None, "string"),
    ],
    ids=str,
)
def test_scalars_are_converted_as_by_tf_data(value, dtype):
    both_generate([value, value], lambda tf: tf.TensorSpec((), dtype))


@pytest.mark.parametrize(
    ("value", "shape", "dtype"),
    [
        ([1, 2, 3], (3,), "int32"),
        ([1, 2, 3], (2,), "int32"),
        ([1, 2, 3], (None,), "int64"),
        ([1, 2, 3], None, "float16"),
        ([[1], [2]], (None,), "int32"),
        ([[1], [2, 3]], (None, None), "int32"),
        (np.ones((2, 3)), (2, None), "float32"),
        (np.ones((2, 3)).T, (3, 2), "float64"),
        (np.array([1j]), (1,), "complex64"),
        ([], (None,), "float32"),
        (7, (None,), "int32"),
        ((1, 2), (2,), "int32"),
        ({"a": 1}, (), "int32"),
        (["a", "bc"], (2,), "string"),
        (("a", "bc"), (2,), "string"),
        (np.array(["a", "bc"]), (None,), "string"),
        (np.array([b"a", b"bc"]), None, "string"),
        (np.array([[b"a", "bc"]], object), (1, 2), "string"),
        ([1, 2], (2,), "string"),
        (["a", 2], (2,), "string"),
    ],
    ids=str,
)
def test_arrays_are_converted_and_checked_as_by_tf_data(value, shape, dtype):
    both_generate([value, value], lambda tf: tf.TensorSpec(shape, dtype))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        *(("tuple", value) for value in ((1, 2), (1, 2, 3), [1, 2], Point(1, 2), {"x": 1, "y": 2}, 5)),
        *(("tuple", value) for value in (((1, 1), 2), (None, 2))),
        *(("named", value) for value in (Point(1, 2), (1, 2))),
        *(("dict", value) for value in ({"x": 1, "y": 2}, {"x": 1}, {"x": 1, "y": 2, "z": 3}, (1, 2))),
    ],
    ids=str,
)
def test_structure_is_checked_as_by_tf_data(kind, value):
    def signature(tf):
        x, y = tf.TensorSpec(None, "float32"), tf.TensorSpec((), "int64")
        return {"tuple": (x, y), "named": Point(x, y), "dict": {"y": y, "x": x}}[kind]

    both_generate([value], signature)


def test_shapes_may_change_as_in_tf_data():
    values = [np.zeros((i % 3, 2)) for i in range(9)]
    both_generate(values, lambda tf: tf.TensorSpec((None, 2), "float64"))
    both_generate([1, [1], [[1]]], lambda tf: tf.TensorSpec(None, "int32"))


def test_an_element_that_does_not_fit_fails_alone_and_a_generator_that_fails_ends_as_in_tf_data():
    tf = tensorflow()

    def breaks():
        yield 1
        yield "not a number"
        yield 3
        raise Failed("broken")

    def events(elements, errors):
        found = []
        while True:
            try:
                found.append(int(next(elements)))
            except StopIteration:
                return found
            except errors:
                found.append("failed")

    signature = tf.TensorSpec((), tf.int32)
    theirs = tf.data.Dataset.from_generator(breaks, output_signature=signature)
    ours = Dataset.from_generator(breaks, output_signature=signature)
    found = events(iter(ours), (UsageError, Failed))
    assert found == [1, "failed", 3, "failed"]
    assert found == events(theirs.as_numpy_iterator(), tf.errors.OpError)


def test_the_example_of_tf_datas_documentation():
    tf = tensorflow()
    signature = (tf.TensorSpec((), tf.int32), tf.RaggedTensorSpec((2, None), tf.int32))
    value = Ragged(np.array([1, 2, 3], np.int32), [0, 2, 3])
    ours = Dataset.from_generator(yielding((42, value)), output_signature=signature)
    theirs = tf.data.Dataset.from_generator(
        yielding((42, tf.ragged.constant([[1, 2], [3]]))), output_signature=signature
    )
    check_spec(ours.element_spec, theirs.element_spec)
    (number, ragged), (their_number, their_ragged) = next(iter(ours)), next(iter(theirs))
    assert (number, ragged.to_list()) == (int(their_number), their_ragged.to_list())


def test_specs_and_cardinality_are_those_of_tf_data():
    tf = tensorflow()
    signature = {
        "a": (tf.TensorSpec((None, 3), tf.bfloat16), tf.TensorSpec(None, tf.string)),
        "b": tf.TensorSpec([]),
    }
    ours, theirs = (
        D.from_generator(yielding(), output_signature=signature) for D in (Dataset, tf.data.Dataset)
    )
    check_spec(ours.element_spec, theirs.element_spec)
    assert ours.cardinality() == int(theirs.cardinality()) == UNKNOWN_CARDINALITY
    compare(ours, theirs)


@pytest.mark.parametrize("empty", [(), {}], ids=str)
def test_a_signature_without_a_spec_is_refused_as_by_tf_data(empty):
    both_refuse(lambda D: D.from_generator(yielding(1), output_signature=empty))


@pytest.mark.parametrize("wrong", ["int32", [], 5, np.zeros(3), np.float32], ids=str)
def test_a_signature_of_something_else_is_refused_as_by_tf_data(wrong):
    tf = tensorflow()
    for signature in (wrong, {"a": wrong}, [tf.TensorSpec(())]):
        with pytest.raises(TypeError):
            tf.data.Dataset.from_generator(yielding(1), output_signature=signature)
        with pytest.raises(UsageError, match="must be a spec, with a shape and a dtype"):
            Dataset.from_generator(yielding(1), output_signature=signature)


def test_what_is_no_function_is_refused_as_by_tf_data():
    tf = tensorflow()
    with pytest.raises(TypeError):
        tf.data.Dataset.from_generator([1], output_signature=tf.TensorSpec(()))
    with pytest.raises(UsageError, match=r"without \(\)"):
        Dataset.from_generator(yielding(1)())
    with pytest.raises(UsageError, match="must return an iterable, such as a generator, not 5"):
        list(Dataset.from_generator(lambda: 5))


def test_an_array_that_is_filled_again_is_copied_in_time():
    def refilled():
        array = np.zeros(3)
        for i in range(4):
            array[:] = i
            yield {"x": array, "part": array[:1], "ragged": Ragged(array, [0, 3])}

    specs = {name: ArraySpec((None,), np.dtype("float64")) for name in ("x", "part")}
    specs["ragged"] = RaggedSpec((None, None), np.dtype("float64"))
    for signature in (None, specs):
        batch = next(iter(Dataset.from_generator(refilled, output_signature=signature).batch(4)))
        assert batch["x"][:, 0].tolist() == [0, 1, 2, 3]
        assert batch["part"].tolist() == [[0], [1], [2], [3]]
        assert batch["ragged"].to_list() == [[[i] * 3] for i in range(4)]


# Without a signature


def test_without_a_signature_elements_are_what_they_are():
    elements = list(Dataset.from_generator(trees, args=(3,)))
    assert_same(elements[2:], [({"a": np.int32(2), "b": np.array([2, 2])}, b"xx")])


def test_it_obeys_the_laws():
    check_laws(lambda ds: Dataset.from_generator(trees, (20,)), Dataset.range(0))
    check_laws(lambda ds: Dataset.from_generator(ragged_pairs), Dataset.range(0))
    number = ArraySpec((), np.dtype("float32"))
    signature = ({"a": number, "b": ArraySpec((None,), np.dtype("int8"))}, ArraySpec(None, STRING))
    check_laws(lambda ds: Dataset.from_generator(trees, (9,), signature), Dataset.range(0))
    ragged = (number, RaggedSpec((None, None), np.dtype("int32")))
    check_laws(lambda ds: Dataset.from_generator(ragged_pairs, (), ragged), Dataset.range(0))
    check_laws(lambda ds: Dataset.from_generator(lambda: count(3)).batch(4), Dataset.range(0))
    check_laws(lambda ds: Dataset.from_generator(trees, (0,)), Dataset.range(0))


def test_what_is_no_array_is_handed_on_where_the_signature_allows_it():
    thing = object()
    generated = Dataset.from_generator(
        yielding((thing, 1)), output_signature=(ObjectSpec(), ArraySpec((), "int8"))
    )
    assert list(generated) == [(thing, 1)]
    inner = list(Dataset.from_generator(lambda: (Dataset.range(n) for n in range(3))))
    assert [len(one) for one in inner] == [0, 1, 2]


@pytest.mark.parametrize("other", [2.5, (1, 1), "text", np.int64(1), None])
def test_without_a_signature_all_must_be_like_the_first(other):
    elements = iter(Dataset.from_generator(yielding(1, 2, other, 4)))
    assert [int(x) for x in islice(elements, 2)] == [1, 2]
    with pytest.raises(UsageError) as caught:
        next(elements)
    assert "element 2 of the generator" in caught.value.__notes__[0]
    assert "from_generator, added at" in caught.value.__notes__[0]
    assert list(elements) == [4]


def test_what_the_first_was_binds_after_a_resume_too():
    generated = Dataset.from_generator(yielding(1, 2.5, 3.5, 4))
    elements = iter(generated)
    next(elements)
    with pytest.raises(UsageError):
        next(elements)
    resumed = iter(generated)
    resumed.load_state_dict(json.loads(json.dumps(elements.state_dict())))
    with pytest.raises(UsageError, match="float32 here, and was int32"):
        next(resumed)
    assert list(resumed) == [4]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"x": [1, 2], "y": 1}, r'element\["x"\] has shape \(2,\), and output_signature says \(3,\)'),
        ({"x": "abc", "y": 1}, r"""element\["x"\] is 'abc', which cannot be made float32"""),
        ({"x": [1, 2, 3]}, r"element is {'x': \[1, 2, 3\]}, and output_signature has {'x': ArraySpec"),
        ([1, 2, 3], r"element is \[1, 2, 3\], and"),
    ],
)
def test_errors_say_what_was_yielded_where_and_what_the_signature_says(value, message):
    signature = {"x": ArraySpec((3,), np.dtype("float32")), "y": ArraySpec((), np.dtype("int32"))}
    good = {"x": [1, 2, 3], "y": 1}
    elements = iter(Dataset.from_generator(yielding(good, value, good), output_signature=signature))
    next(elements)
    with pytest.raises(UsageError, match=message) as caught:
        next(elements)
    assert "at element 1 of the generator (counted from 0)" in caught.value.__notes__[0]
    assert len(list(elements)) == 1


def test_a_users_error_comes_after_the_elements_in_front_of_it_and_says_where():
    def breaks():
        yield 1
        yield 2
        raise Failed("broken")

    elements = iter(Dataset.from_generator(breaks))
    assert [int(x) for x in islice(elements, 2)] == [1, 2]
    before = elements.state_dict()
    with pytest.raises(Failed, match="broken") as caught:
        next(elements)
    assert "in from_generator, added at" in caught.value.__notes__[0]
    after = elements.state_dict()
    assert list(elements) == []
    elements.load_state_dict(before)
    with pytest.raises(Failed, match="broken"):
        next(elements)
    elements.load_state_dict(after)
    assert list(elements) == []


def test_a_function_that_fails_before_the_first_element_fails_once():
    def broken():
        raise Failed("at once")

    elements = iter(Dataset.from_generator(broken))
    with pytest.raises(Failed, match="at once"):
        next(elements)
    assert list(elements) == []


# When it runs


class Watched:
    """Counts what generators do."""

    def __init__(self):
        self.started = self.yielded = self.closed = 0

    def __call__(self, size=10**9):
        self.started += 1
        try:
            for i in range(size):
                self.yielded += 1
                yield i
        finally:
            self.closed += 1


def test_the_function_is_called_for_each_iteration_and_not_before():
    watched = Watched()
    generated = Dataset.from_generator(watched, args=(3,)).repeat(2)
    elements = iter(generated)
    assert watched.started == 0
    assert [int(x) for x in elements] == [0, 1, 2, 0, 1, 2]
    list(generated)
    assert (watched.started, watched.closed) == (4, 4)


def test_a_generator_is_closed_with_the_iterator():
    watched = Watched()
    with iter(Dataset.from_generator(watched)) as elements:
        next(elements)
        assert watched.closed == 0
    assert watched.closed == 1
    elements.close()
    list(Dataset.from_generator(watched).take(3))
    assert watched.closed == watched.started == 2


def test_a_generator_that_an_interrupt_ended_is_run_again():
    interrupts = [KeyboardInterrupt]

    def interrupted():
        for x in range(9):
            if x == 5 and interrupts:
                raise interrupts.pop()
            yield x

    elements = iter(Dataset.from_generator(interrupted))
    found = []  # what came before the interrupt counts, too
    with pytest.raises(KeyboardInterrupt):
        found.extend(map(int, elements))
    found.extend(map(int, elements))
    assert found == list(range(9))


def test_a_resume_that_was_interrupted_goes_on():
    class Interrupted:
        numbers = iter(range(9))

        def __iter__(self):
            return self

        def __next__(self):
            number = next(self.numbers)
            if number == 2:
                raise KeyboardInterrupt  # once: the next call gives 3
            return number

    stream = Dataset.from_generator(Interrupted)._node.open(Context(LocalServices()), 4)
    with pytest.raises(KeyboardInterrupt):
        stream.next(1)
    assert stream.next(1).row(0) == 5  # 0, 1, 3 and 4 were dropped


def test_no_more_is_taken_than_is_asked_for():
    watched = Watched()
    list(Dataset.from_generator(watched).take(3))
    assert watched.yielded == 3


def test_arguments_may_be_a_list_or_none_but_not_a_text():
    assert list(Dataset.from_generator(lambda a, b: [a, b], [1, 2])) == [1, 2]
    assert list(Dataset.from_generator(yielding(1), None)) == [1]
    with pytest.raises(UsageError, match=r"\(x,\)"):
        Dataset.from_generator(trees, args="text")


def test_a_state_beyond_what_the_generator_gives_is_refused():
    node = Dataset.from_generator(yielding(1, 2))._node
    stream = node.open(Context(LocalServices()), 4)
    with pytest.raises(UsageError, match="ended after 2 elements; when it was left, it had given 4"):
        stream.next(10)

"""At the end of an iteration its steps are closed, while someone still holds the iterator."""

from __future__ import annotations

import json

import pytest

from feedline import Dataset
from tests.ops.oracle import tf

STEPS = {
    "take": lambda D, numbers: numbers.take(2),
    "take of a map": lambda D, numbers: numbers.map(lambda x: x).take(2),
    "take of a shuffle": lambda D, numbers: numbers.shuffle(3).take(2),
    "take of a prefetch": lambda D, numbers: numbers.prefetch(2).take(2),
    "take_while": lambda D, numbers: numbers.take_while(lambda x: x < 3),
    "zip with a shorter one": lambda D, numbers: D.zip(D.range(2), numbers),
    "zip with a shorter one after it": lambda D, numbers: D.zip(numbers, D.range(2)),
    "choices": lambda D, numbers: D.choose_from_datasets([numbers, numbers], D.range(2)),
    "interleave": lambda D, numbers: D.range(2).interleave(lambda i: numbers.take(2), cycle_length=2),
    "rounds": lambda D, numbers: numbers.take(2).repeat(2),
}


def numbers_that(finish):
    """A generator without an end, which calls `finish` when it is closed."""

    def numbers():
        try:
            number = 0
            while True:
                yield number
                number += 1
        finally:
            finish()

    return numbers


def opened_and_closed(D, step, **signature):
    opened, closed = [], []

    def numbers():
        opened.append(1)
        return numbers_that(lambda: closed.append(1))()

    elements = iter(step(D, D.from_generator(numbers, **signature)).as_numpy_iterator())
    assert len(list(elements)) in (2, 3, 4)
    assert next(elements, "the end") == "the end"  # the iterator is still there
    return len(opened), len(closed)


@pytest.mark.parametrize("step", STEPS.values(), ids=list(STEPS))
def test_generators_are_closed_at_the_end_as_in_tf_data(step):
    opened, closed = opened_and_closed(Dataset, step)
    assert opened == closed > 0
    assert (opened, closed) == opened_and_closed(
        tf.data.Dataset, step, output_signature=tf.TensorSpec((), tf.int32)
    )


@pytest.mark.parametrize("step", STEPS.values(), ids=list(STEPS))
def test_the_position_at_the_end_is_known_after_it_was_closed(step):
    made = step(Dataset, Dataset.from_generator(numbers_that(lambda: None)))
    elements = iter(made)
    list(elements)
    state = json.loads(json.dumps(elements.state_dict()))
    assert state == json.loads(json.dumps(elements.state_dict()))
    resumed = iter(made)
    resumed.load_state_dict(state)
    assert list(resumed) == []


def test_an_error_of_the_cleanup_comes_after_all_elements():
    def finish():
        raise KeyError("cleanup")

    elements = iter(Dataset.from_generator(numbers_that(finish)).take(2))
    assert [next(elements), next(elements)] == [0, 1]
    with pytest.raises(KeyError, match="cleanup"):
        next(elements)
    assert list(elements) == []


def test_an_interrupt_of_the_cleanup_loses_no_element():
    def finish():
        raise KeyboardInterrupt

    elements = iter(Dataset.from_generator(numbers_that(finish)).take(2))
    assert [next(elements), next(elements)] == [0, 1]
    with pytest.raises(KeyboardInterrupt):
        next(elements)
    assert list(elements) == []

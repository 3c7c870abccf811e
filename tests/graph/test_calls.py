"""A StopIteration of a user's function is an error like any other, and not the end of the dataset."""

import itertools

import numpy as np
import pytest

from feedline import Dataset


def stops_at_3(x):
    if np.max(x) == 3:
        next(iter(()))
    return x


def generated():
    yield from range(3)
    stops_at_3(3)  # which Python itself makes a RuntimeError


STEPS = {
    "map": lambda ds: ds.map(stops_at_3),
    "parallel map": lambda ds: ds.map(stops_at_3, num_parallel_calls=2, executor="thread"),
    "filter": lambda ds: ds.filter(lambda x: stops_at_3(x) >= 0),
    "filter in workers": lambda ds: ds.filter(lambda x: stops_at_3(x) >= 0).with_options(workers=2),
    "filter and prefetch": lambda ds: ds.filter(lambda x: stops_at_3(x) >= 0).prefetch(2),
    "take_while": lambda ds: ds.take_while(lambda x: stops_at_3(x) >= 0),
    "flat_map": lambda ds: ds.flat_map(lambda x: Dataset.range(stops_at_3(x), x + 1)),
    "interleave": lambda ds: ds.interleave(lambda x: Dataset.range(stops_at_3(x), x + 1), cycle_length=1),
    "scan": lambda ds: ds.scan(np.int64(0), lambda state, x: (state, stops_at_3(x))),
    "from_generator": lambda ds: Dataset.from_generator(generated),
}


@pytest.mark.parametrize("step", STEPS)
def test_stop_iteration_is_raised_after_the_elements_in_front_of_it(step):
    elements = iter(STEPS[step](Dataset.range(8)))
    assert [int(x) for x in itertools.islice(elements, 3)] == [0, 1, 2]
    with pytest.raises(RuntimeError, match="raised StopIteration") as caught:
        next(elements)
    assert any("at element 3" in note for note in caught.value.__notes__)


@pytest.mark.parametrize(
    "ask",
    [
        lambda ds: list(ds.filter(lambda x: stops_at_3(x) >= 0).batch(2)),
        lambda ds: list(ds.group_by_window(stops_at_3, lambda key, rows: rows, window_size=2)),
        lambda ds: list(
            ds.group_by_window(lambda x: x, lambda key, rows: (stops_at_3(key), rows)[1], window_size=1)
        ),
        lambda ds: list(ds.bucket_by_sequence_length(stops_at_3, [4], [2, 2])),
        lambda ds: list(Dataset.from_generator(lambda: stops_at_3(3))),
        lambda ds: ds.reduce(np.int64(0), lambda state, x: state + stops_at_3(x)),
    ],
    ids=["batch", "key_func", "reduce_func", "element_length_func", "from_generator", "reduce"],
)
def test_stop_iteration_never_ends_a_dataset(ask):
    with pytest.raises(RuntimeError, match="raised StopIteration"):
        ask(Dataset.range(8))


def test_the_traceback_leads_to_the_function():
    with pytest.raises(RuntimeError) as caught:
        list(Dataset.range(8).filter(lambda x: stops_at_3(x) >= 0))
    assert caught.value.__cause__.__traceback__ is not None
    names = [entry.name for entry in pytest.ExceptionInfo.from_exception(caught.value.__cause__).traceback]
    assert "stops_at_3" in names

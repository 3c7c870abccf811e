"""A span gives what the whole gives at these places, however its node opens it, and computes nothing else."""

from __future__ import annotations

import numpy as np
import pytest

import feedline as fl
from feedline import Dataset
from feedline.graph import Context, Cursor
from feedline.graph.span import Span
from feedline.run.services import LocalServices
from feedline.testing import Failed, assert_same


def noisy(x):
    return {"x": x, "noise": fl.rng().normal(), "ragged": np.arange(int(x) % 3)}


PIPELINES = {
    "range": Dataset.range(23),
    "map": Dataset.range(23).map(noisy),
    "workers": Dataset.range(23).map(noisy, num_parallel_calls=2),
    "map of map": Dataset.range(23)
    .map(noisy, num_parallel_calls=2)
    .map(lambda e: (e["x"], e["noise"], fl.rng().random())),
    "batch": Dataset.range(23).map(lambda x: fl.rng().normal()).batch(3),
    "batch without the rest": Dataset.range(23).batch(3, drop_remainder=True),
    "padded batch": Dataset.range(23).map(noisy).padded_batch(3),
    "prefetch": Dataset.range(23).map(noisy).prefetch(4),
    "options": Dataset.range(23).map(noisy).with_options(workers=2),
    "shuffle": Dataset.range(23).shuffle(seed=4).map(noisy),
    "zip": Dataset.zip(Dataset.range(23), Dataset.range(23).map(noisy)),
}


def elements(node):
    """Of the first iteration."""
    rows = Cursor(Context(LocalServices()), node)
    try:
        return [element for block in rows.collect(1 << 20) for element in block]
    finally:
        rows.close()


@pytest.mark.parametrize("dataset", PIPELINES.values(), ids=PIPELINES)
@pytest.mark.parametrize(("begin", "end"), [(0, 4), (2, 7), (5, 7), (3, 3)])
def test_a_span_has_the_elements_of_the_whole(dataset, begin, end):
    assert_same(elements(Span(dataset._node, begin, end)), elements(dataset._node)[begin:end])


def test_a_span_to_the_end_has_the_batch_that_is_short():
    batches = PIPELINES["batch"]
    assert_same(elements(Span(batches._node, 6, len(batches))), elements(batches._node)[6:])


@pytest.mark.parametrize("calls", [None, 2])
def test_nothing_else_is_computed(calls, tmp_path):
    log = tmp_path / "log"

    def logged(x):
        with open(log, "a") as file:
            file.write(f"{x}\n")
        return x

    assert len(elements(Span(Dataset.range(1000).map(logged, calls)._node, 10, 30))) == 20
    assert sorted(map(int, log.read_text().split())) == list(range(10, 30))


@pytest.mark.parametrize("calls", [None, 2])
def test_errors_tell_the_number_that_the_element_has_in_the_whole(calls):
    def fail(x):
        if x == 17:
            raise Failed("17")
        return x

    with pytest.raises(Failed) as caught:
        elements(Span(Dataset.range(30).map(fail, calls)._node, 10, 20))
    assert any("element 17" in note for note in caught.value.__notes__)

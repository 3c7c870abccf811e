"""with_options(workers=): the functions of all steps before run in so many processes."""

from __future__ import annotations

import os
import time

import numpy as np
import pytest

from feedline import AUTOTUNE, Dataset
from feedline.run.cores import usable_cores
from feedline.testing import Failed, check_errors, check_laws
from tests.processes import comes_true, workers_of


def parts(number):
    """A dataset whose steps are worth a worker."""
    return Dataset.range(number, number + 3).map(lambda x: (x, "text"))


STEPS = {
    "map": lambda ds: ds.map(lambda number, x: {"x": x}),
    "filter": lambda ds: ds.filter(lambda number, x: number % 3 != 1),
    "flat_map": lambda ds: ds.flat_map(lambda number, x: parts(number)),
    "interleave": lambda ds: ds.interleave(lambda number, x: parts(number), cycle_length=2),
}
each_step = pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)


@each_step
def test_steps_in_workers_obey_the_laws(step):
    source = Dataset.range(9).map(lambda x: np.arange(x)).enumerate()
    check_laws(lambda ds: step(ds).with_options(workers=2), source)


def test_errors_of_predicates_and_of_makers_come_in_their_place():
    def fail(x):
        if x % 5 == 2:
            raise Failed(f"function, {x}")
        return x % 2 == 0

    check_errors(lambda ds: ds.filter(fail).with_options(workers=2), Dataset.range(8))

    def make(x):
        fail(x)
        return parts(x)

    check_errors(lambda ds: ds.flat_map(make).with_options(workers=2), Dataset.range(8), most=12)


def met(folder, count):
    """This process's id, once `count` processes have asked for theirs: one may take long to start."""
    (folder / str(os.getpid())).touch()
    assert comes_true(lambda: len(list(folder.iterdir())) >= count)
    return os.getpid()


def test_functions_run_in_other_processes(tmp_path):
    me = os.getpid()

    def pid(*_):
        time.sleep(0.003)
        return me if os.getpid() == me else met(tmp_path, 2)

    elements = Dataset.range(40)
    mapped = elements.map(pid)
    made = elements.flat_map(lambda x: Dataset.from_tensor_slices(np.array([pid()])))
    for dataset in (mapped, made):
        assert {int(x) for x in dataset} == {me}
        assert len({int(x) for x in dataset.with_options(workers=2)} - {me}) == 2
        assert {int(x) for x in dataset.with_options(workers=0)} == {me}
    kept = elements.filter(lambda x: pid() != me)
    assert list(kept) == []
    assert [int(x) for x in kept.with_options(workers=2)] == list(range(40))
    assert workers_of(me)


def test_a_slow_predicate_is_sent_to_workers_when_the_number_is_left_open():
    def slow(x):
        end = time.perf_counter() + 0.001
        while time.perf_counter() < end:
            pass
        return x % 2 == 0

    def workers(predicate):
        ds = Dataset.range(100).filter(predicate).with_options(workers=AUTOTUNE)
        assert [int(x) for x in ds] == list(range(0, 100, 2))
        (step,) = [row for row in ds.stats().rows if row.step.startswith("filter")]
        return step.workers

    assert workers(slow) == usable_cores()
    # On a machine that stalls, a function may look slow once: but not again and again.
    assert 0 in [workers(lambda x: x % 2 == 0) for _ in range(5)]


def test_the_next_datasets_are_made_while_one_is_read():
    def make(x):
        time.sleep(0.01)
        return Dataset.from_tensor_slices(np.array([[x, os.getpid()]]))

    found = list(Dataset.range(12).flat_map(make).with_options(workers=3))
    assert [int(x) for x, _ in found] == list(range(12))
    assert len({int(pid) for _, pid in found}) == 3

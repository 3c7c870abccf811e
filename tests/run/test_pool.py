"""The pool of workers: bounded for the whole process, and empty a few seconds after the last use."""

from __future__ import annotations

import gc
import os
import time
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from feedline import Dataset, Shard
from feedline.run import pool
from tests.processes import comes_true, deaths_in, dismiss_workers, run_python, workers_of

ENOUGH = 60  # seconds


@pytest.fixture(autouse=True)
def _no_workers_of_other_tests():
    dismiss_workers()
    assert all_end()


def all_end():
    """Not even a zombie is left of any worker."""
    there = workers_of(os.getpid())
    return comes_true(lambda: not any(Path(f"/proc/{pid}").exists() for pid in there), ENOUGH)


def fail_at_seven(x):
    if x == 7:
        raise KeyError(int(x))
    return x


def test_workers_end_after_their_iterators_were_dropped():
    iterators = [iter(Dataset.range(1000).map(lambda x: x, 2)) for _ in range(5)]
    for rows in iterators:
        next(rows)
    assert workers_of(os.getpid())
    del iterators, rows
    assert all_end()


def read_with_a_name_for_the_iterator():
    rows = iter(Dataset.range(1000).map(fail_at_seven, 2))
    return list(rows)


def test_kept_exceptions_keep_no_workers():
    kept = []
    for _ in range(3):
        with pytest.raises(KeyError) as caught:
            read_with_a_name_for_the_iterator()
        kept.append(caught)
    assert workers_of(os.getpid())
    assert all_end()


def test_a_function_that_never_returns_keeps_no_worker_when_nobody_reads_on():
    def endless(x):
        while x == 5:
            pass
        return x

    assert [int(x) for x in islice(Dataset.range(40).map(endless, 2), 4)] == [0, 1, 2, 3]
    gc.collect()
    assert all_end()


def numbers(shard):
    yield from range(shard.index, 60, shard.count)


def slow_part(start):
    time.sleep(0.005)
    return Dataset.range(start, start + 20).map(lambda x: x)


PIPELINES = {
    "map": lambda: Dataset.range(60).map(lambda x: x, 2),
    "two maps": lambda: Dataset.range(60).map(lambda x: x, 2).map(lambda x: x, 3),
    "prefetch": lambda: Dataset.range(60).map(lambda x: x, 2).prefetch(4),
    "filter": lambda: Dataset.range(60).filter(lambda x: x >= 0).with_options(workers=2),
    "generator": lambda: Dataset.from_generator(numbers, workers=2),
    "flat_map": lambda: Dataset.range(0, 60, 20).flat_map(slow_part).with_options(workers=2),
}


@pytest.mark.parametrize("make", PIPELINES.values(), ids=PIPELINES)
def test_an_open_iterator_gives_its_workers_back_and_goes_on_where_it_was(make):
    dataset = make()
    rows = iter(dataset)
    found = [int(x) for x in islice(rows, 5)]
    assert all_end()
    assert found + [int(x) for x in rows] == list(range(60))
    assert deaths_in(dataset) == 0


def test_what_was_computed_before_a_pause_is_not_computed_again(tmp_path):
    def note(x):
        with open(tmp_path / "calls", "a") as calls:
            calls.write(f"{x} ")
        return x

    rows = iter(Dataset.range(30).map(note, 2))
    found = [int(next(rows))]
    assert all_end()
    found += [int(x) for x in rows]
    assert found == list(range(30))
    assert sorted(map(int, (tmp_path / "calls").read_text().split())) == list(range(30))


def test_arrays_outlive_the_workers_that_made_them():
    rows = iter(Dataset.range(20).map(lambda x: np.full(100_000, x), 2))
    kept = list(islice(rows, 5))
    assert all_end()
    kept += rows
    assert all((array == number).all() for number, array in enumerate(kept))


def test_an_error_that_comes_after_a_pause_is_in_its_place():
    rows = iter(Dataset.range(12).map(fail_at_seven, 2))
    assert [int(x) for x in islice(rows, 7)] == list(range(7))
    assert all_end()
    with pytest.raises(KeyError):
        next(rows)
    assert all_end()
    assert [int(x) for x in rows] == list(range(8, 12))


def test_workers_that_are_missed_again_and_again_stay_longer():
    rows = iter(Dataset.range(1_000_000).map(lambda x: x, 2))
    next(rows)
    (crew,) = pool._known_holders()
    for patient in (False, False, True):
        assert (crew.patience > pool.IDLE) is patient
        assert all_end()
        # How many rows were computed before they ended depends on the machine.
        while not workers_of(os.getpid()):
            assert len(list(islice(rows, 100))) == 100


def test_a_generator_that_worked_for_long_is_not_started_again_after_a_short_pause():
    def slow(shard):
        for number in range(3):
            time.sleep(2 * pool.IDLE if number == 0 else 0)
            yield number, os.getpid()

    rows = iter(Dataset.from_generator(slow, workers=1))
    _, first = next(rows)
    (crew,) = pool._known_holders()
    # As if nobody had asked for anything in the meantime.
    crew._used_at -= 1.5 * pool.IDLE
    pool._look()
    assert {int(pid) for _, pid in rows} == {int(first)}


# On one core, the limit is two workers, or as many as one pipeline asks for.
ONE_CORE = """
import os, sys, threading, time, warnings
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
sys.path.insert(0, sys.argv[1])
from feedline import Dataset
from tests.processes import comes_true, children_of, workers_of

def slow(x):
    time.sleep(0.002)
    return x
"""


def on_one_core(code):
    done = run_python(ONE_CORE + code, str(Path(__file__).parents[2]))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_open_iterators_that_pause_lend_their_workers_to_others():
    found = on_one_core("""
iterators = []
for _ in range(6):
    rows = iter(Dataset.range(2).map(slow, 2))
    assert [int(next(rows)), int(next(rows))] == [0, 1]
    iterators.append(rows)
    print(len(workers_of(os.getpid())), end=" ")
""")
    assert found == "2 2 2 2 2 2 "


def test_pipelines_at_work_at_the_same_time_share_one_limit():
    found = on_one_core("""
results, most = {}, 0

def read(number):
    results[number] = [int(x) for x in Dataset.range(400).map(slow, 3)]

threads = [threading.Thread(target=read, args=(number,)) for number in range(6)]
for thread in threads:
    thread.start()
while any(thread.is_alive() for thread in threads):
    most = max(most, len(workers_of(os.getpid())))
    time.sleep(0.01)
assert results == {number: list(range(400)) for number in range(6)}
print(1 <= most <= 3 + 5)  # three, and one for each pipeline that found none
""")
    assert found == "True\n"


def test_one_pipeline_gets_as_many_workers_as_it_asks_for():
    found = on_one_core("""
print(len({int(x) for x in Dataset.range(400).map(lambda x: (time.sleep(0.002), os.getpid())[1], 5)}))
""")
    assert found == "5\n"


NESTED = {
    "zip": "Dataset.zip(Dataset.range(20).map(slow, 2), Dataset.range(20).map(slow, 3)).map(lambda a, b: a)",
    "interleave": """Dataset.range(0, 20, 10).interleave(
        lambda start: Dataset.range(start, start + 10).map(slow, 2), cycle_length=2, block_length=10,
        num_parallel_calls=2)""",
    "in a function": "Dataset.range(20).map(lambda x: x + sum(Dataset.range(3).map(slow, 2)) - 3)",
    "in threads": """Dataset.range(20).map(
        lambda x: x + sum(Dataset.range(3).map(slow, 2)) - 3, 4, executor="thread")""",
    "in a worker": "Dataset.range(20).map(lambda x: x + sum(Dataset.range(3).map(slow, 2)) - 3, 2)",
    "beside open ones": "Dataset.range(20).map(slow, 2)",
}


@pytest.mark.parametrize("dataset", NESTED.values(), ids=NESTED)
def test_pipelines_within_pipelines_go_on_when_the_limit_is_reached(dataset):
    found = on_one_core(f"""
others = [iter(Dataset.range(1000).map(slow, 2)) for _ in range(3)]
for rows in others:
    next(rows)
print([int(x) for x in {dataset}] == list(range(20)))
""")
    assert found == "True\n"


def test_nothing_is_left_when_all_workers_have_ended():
    found = on_one_core("""
def held():
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))

before = held()
for _ in range(2):
    iterators = [iter(Dataset.range(100).map(slow, 2)) for _ in range(3)]
    for rows in iterators:
        next(rows)
    del iterators[:2], rows
    # Zombies, descriptors and the thread that ended the workers are gone, too.
    assert comes_true(lambda: not children_of(os.getpid()) and held() == before, 60), held()
    assert len(list(iterators[0])) == 99
    del iterators
print("nothing")
""")
    assert found == "nothing\n"


def test_a_forked_child_has_a_pool_of_its_own():
    found = on_one_core("""
warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of threads in a process that forks
dataset = Dataset.range(40).map(slow, 2)
assert len(list(dataset)) == 40
child = os.fork()
assert len(list(dataset)) == 40
if child:
    assert os.waitpid(child, 0)[1] == 0
    print("both")
else:
    assert comes_true(lambda: not children_of(os.getpid()), 60)
    os._exit(0)
""")
    assert found == "both\n"


def test_shards_of_a_generator_may_outnumber_the_limit():
    def part(shard):
        assert shard == Shard(shard.index, 3)
        yield from range(shard.index, 30, shard.count)

    others = [iter(Dataset.range(1000).map(lambda x: x, 2)) for _ in range(3)]
    for rows in others:
        next(rows)
    assert [int(x) for x in Dataset.from_generator(part, workers=3)] == list(range(30))

"""Streams that workers run: generators in several processes, and the datasets of interleave."""

from __future__ import annotations

import os
import signal
import time
from itertools import islice

import numpy as np
import pytest

from feedline import Dataset, Shard, UsageError, WorkerDied
from feedline.testing import Failed, assert_same, check_errors, check_laws


def numbers(count, shard):
    for number in range(shard.index, count, shard.count):
        yield {"number": number, "square": np.full(number % 3, number**2), "text": "x" * number}


def test_workers_yield_the_parts_of_a_generator_by_turns():
    found = list(Dataset.from_generator(numbers, (20,), workers=3))
    assert [int(element["number"]) for element in found] == list(range(20))
    assert found[7]["text"] == b"x" * 7


def test_generators_in_workers_obey_the_laws():
    check_laws(lambda _: Dataset.from_generator(numbers, (9,), workers=2), Dataset.range(1))


def test_each_worker_is_a_process_of_its_own():
    def pids(shard):
        assert shard == Shard(shard.index, 2)
        for _ in range(5):
            yield os.getpid()

    found = [int(pid) for pid in Dataset.from_generator(pids, workers=2)]
    assert found == found[:2] * 5
    assert len({os.getpid(), *found}) == 3


def test_parts_of_different_lengths_all_come():
    def uneven(shard):
        for number in range(10 * shard.index):
            yield shard.index * 100 + number

    found = [int(x) for x in Dataset.from_generator(uneven, workers=3)]
    assert sorted(found) == [*range(100, 110), *range(200, 220)]
    assert found[:4] == [100, 200, 101, 201]


def test_a_generator_that_never_ends():
    def endless(shard):
        number = shard.index
        while True:
            yield number
            number += shard.count

    ds = Dataset.from_generator(endless, workers=2)
    for _ in range(3):
        assert [int(x) for x in islice(ds, 50)] == list(range(50))


def test_an_error_comes_in_its_place():
    def fails(shard):
        yield shard.index
        raise Failed(f"shard {shard.index}")

    rows = iter(Dataset.from_generator(fails, workers=2))
    assert [int(next(rows)), int(next(rows))] == [0, 1]
    for index in range(2):
        with pytest.raises(Failed, match=f"shard {index}") as caught:
            next(rows)
        assert "at element 1 of the generator" in "\n".join(caught.value.__notes__)
    assert list(rows) == []


def test_a_signature_is_kept_to():
    from feedline.spec import ArraySpec

    def halves(shard):
        yield from (shard.index / 2, 2)

    signature = ArraySpec((), np.float64)
    ds = Dataset.from_generator(halves, output_signature=signature, workers=2)
    assert ds.element_spec == signature
    assert [x.dtype for x in ds] == [np.float64] * 4


@pytest.mark.parametrize("size", [3, 100_000])
@pytest.mark.parametrize("step", [None, lambda ds: ds.prefetch(2), lambda ds: ds.batch(2).unbatch()])
def test_a_generator_may_fill_its_array_again(size, step):
    def filled(shard):
        array, words = np.zeros(size), ["a", "b"]
        for number in range(shard.index, 12, shard.count):
            array[:] = number
            yield {"array": array, "every second": array[::2], "word": words[number % 2], "number": number}

    def shard_of(index):
        return step(Dataset.from_generator(filled, (Shard(int(index), 2),)))

    if step is None:
        ds = Dataset.from_generator(filled, workers=2)
    else:
        ds = Dataset.range(2).interleave(shard_of, cycle_length=2, num_parallel_calls=2)
    rows = list(ds)
    assert [int(row["number"]) for row in rows] == list(range(12))
    for number, row in enumerate(rows):
        assert row["word"] == b"ab"[number % 2 : number % 2 + 1]
        np.testing.assert_array_equal(row["array"], np.full(size, number))
        np.testing.assert_array_equal(row["every second"], np.full(len(range(0, size, 2)), number))


def test_a_killed_worker_is_replaced_and_nothing_is_lost():
    def slow(shard):
        for number in range(shard.index, 300, shard.count):
            time.sleep(0.001)
            yield number, os.getpid()

    found, killed = [], 0
    for number, pid in Dataset.from_generator(slow, workers=2):
        found.append(int(number))
        if number in (50, 51, 200):
            os.kill(int(pid), signal.SIGKILL)
            killed += 1
    assert found == list(range(300))
    assert killed == 3


def test_a_generator_that_kills_its_worker_is_given_up():
    def fatal(shard):
        yield shard.index
        os.kill(os.getpid(), signal.SIGKILL)

    rows = iter(Dataset.from_generator(fatal, workers=1))
    assert int(next(rows)) == 0
    with pytest.raises(WorkerDied, match="SIGKILL"):
        next(rows)


def load(number):
    time.sleep(0.005)  # as reading a file would take
    return Dataset.from_tensor_slices({"x": np.arange(number, number + 4), "pid": np.full(4, os.getpid())})


def test_interleave_calls_slow_functions_in_workers():
    def make(**how):
        return Dataset.range(0, 60, 10).interleave(load, cycle_length=3, block_length=2, **how)

    found = list(make(num_parallel_calls=2))
    assert_same([one["x"] for one in found], [one["x"] for one in make()], "in workers")
    # The first dataset shows that it is worth it.
    pids = [int(one["pid"]) for one in found]
    assert len(set(pids)) > 1


def test_interleave_in_workers_obeys_the_laws():
    def values(number):
        time.sleep(0.003)
        return Dataset.range(number, number + 3).map(lambda x: (x, "text"))

    check_laws(lambda ds: ds.interleave(values, cycle_length=2, num_parallel_calls=2), Dataset.range(5))


def test_errors_of_datasets_in_workers_come_in_their_place():
    def values(number):
        def fail(x):
            if x == 1:
                raise Failed(f"dataset {number}")
            return x + 10 * number

        return Dataset.range(3).map(fail)

    check_errors(lambda ds: ds.interleave(values, cycle_length=2, num_parallel_calls=2), Dataset.range(8))


@pytest.mark.parametrize("how", [{"cycle_length": 1}, {"cycle_length": 3, "block_length": 2}])
def test_a_function_that_makes_no_dataset_in_a_worker_fails_once_and_the_next_one_has_its_place(how):
    def values(number):
        if number in (1, 4, 5):
            raise Failed(f"no dataset {number}")
        return Dataset.range(3).map(lambda x: x + 10 * number)

    here = check_errors(lambda ds: ds.interleave(values, **how), Dataset.range(9))
    calls = {**how, "num_parallel_calls": how["cycle_length"]}
    # The second time, it is known that they are worth a worker: then the first is made there, too.
    for _ in range(2):
        assert_same(check_errors(lambda ds: ds.interleave(values, **calls), Dataset.range(9)), here)


def test_a_function_that_fails_in_a_worker_was_called_once(tmp_path):
    def values(number):
        with open(tmp_path / "calls", "a") as file:
            file.write(f"{number} ")
        if number == 2:
            raise Failed("no dataset")
        return Dataset.range(3).map(lambda x: x)

    dataset = Dataset.range(4).interleave(values, cycle_length=1, num_parallel_calls=1)
    assert len(list(dataset.ignore_errors())) == 9
    assert (tmp_path / "calls").read_text().split().count("2") == 1


def test_workers_must_be_a_number():
    with pytest.raises(UsageError, match=r"from_generator\(workers='two'\)"):
        Dataset.from_generator(numbers, (3,), workers="two")


def test_a_large_state_comes_back_from_a_worker():
    def sums(number):
        def add(state, x):
            return state + 1, x + state[0]

        return Dataset.range(4).scan(np.arange(100_000, dtype=np.int64), add)

    def make():
        return Dataset.range(2).flat_map(sums).with_options(workers=1)

    elements = iter(make())
    taken = [int(next(elements)) for _ in range(3)]
    again = iter(make())
    again.load_state_dict(elements.state_dict())
    assert taken + [int(x) for x in again] == [0, 2, 4, 6] * 2


def test_an_error_with_much_in_it_comes_back_from_a_worker():
    def fail(x):
        raise ValueError("long", "x" * 1_000_000)

    with pytest.raises(ValueError, match="long") as caught:
        list(Dataset.range(3).map(fail, 2))
    assert len(caught.value.args[1]) == 1_000_000


def test_a_function_that_takes_no_shard_is_refused_at_once():
    with pytest.raises(UsageError, match="unexpected keyword argument 'shard'"):
        Dataset.from_generator(lambda: iter(range(3)), workers=2)


def test_stats_tell_of_the_processes_of_a_generator():
    def slow(shard):
        for number in range(shard.index, 6, shard.count):
            time.sleep(0.2)
            yield number

    ds = Dataset.from_generator(slow, workers=2)
    list(ds)
    stats = ds.stats()
    names = ["from_generator(slow)", "2 x from_generator(slow, workers=2)"]
    assert [row.step for row in stats.rows] == names
    assert [row.workers for row in stats.rows] == [0, 2]
    assert stats.bottleneck is stats.rows[1]

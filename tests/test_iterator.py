"""The iterator: its state, its end, and what it leaves behind."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import textwrap
import threading
import time
from itertools import islice

import numpy as np
import pytest

from feedline import Dataset, Ragged, UsageError
from feedline.testing import assert_same


def threads() -> int:
    return sum(thread.name.startswith("feedline") for thread in threading.enumerate())


def wait_until_no_thread_is_left() -> None:
    until = time.monotonic() + 200
    while threads() and time.monotonic() < until:
        time.sleep(0.001)
    assert threads() == 0


def pipeline(rows: int = 40) -> Dataset:
    return (
        Dataset.range(rows)
        .map(lambda x: {"x": x, "text": str(x)})
        .shuffle(7, seed=3)
        .prefetch(4)
        .filter(lambda d: d["x"] % 3 != 1)
        .batch(4)
        .repeat(2)
        .prefetch(2)
    )


def values(elements) -> list:
    return [(element["x"].tolist(), element["text"].tolist()) for element in elements]


def test_a_state_goes_through_json_and_is_small():
    rows = iter(pipeline())
    before = values(islice(rows, 5))
    text = json.dumps(rows.state_dict())
    assert len(text) < 500
    later = iter(pipeline())
    later.load_state_dict(json.loads(text))
    assert before + values(later) == values(pipeline())
    assert len(before) == 5


def test_the_state_is_exact_though_threads_run_ahead():
    whole = values(pipeline())
    rows = iter(pipeline())
    for taken in range(len(whole) + 1):
        resumed = iter(pipeline())
        resumed.load_state_dict(rows.state_dict())
        assert values(resumed) == whole[taken:]
        next(rows, None)


def test_get_state_and_set_state_are_the_same():
    rows = iter(Dataset.range(5))
    next(rows)
    state = rows.get_state()
    assert state == rows.state_dict()
    assert list(rows) == [1, 2, 3, 4]
    rows.set_state(state)
    assert list(rows) == [1, 2, 3, 4]


def test_a_state_may_be_loaded_in_the_middle_and_again():
    rows = iter(pipeline())
    first, start = values(islice(rows, 2)), rows.state_dict()
    rest = values(rows)
    for taken in (0, 1, 3):
        rows.load_state_dict(start)
        assert values(islice(rows, taken)) == rest[:taken]
    rows.load_state_dict(start)
    assert first + values(rows) == values(pipeline())
    rows.close()
    wait_until_no_thread_is_left()


def test_a_state_at_the_end_is_the_end():
    rows = iter(Dataset.range(3))
    assert list(rows) == [0, 1, 2]
    again = iter(Dataset.range(3))
    again.load_state_dict(rows.state_dict())
    assert list(again) == []


def test_a_state_holds_the_epoch():
    dataset = Dataset.range(30).shuffle(30, seed=5)
    first, second, third = list(dataset), list(dataset), list(dataset)
    assert first != second != third

    again = Dataset.range(30).shuffle(30, seed=5)
    next(iter(again))
    rows = iter(again)
    assert list(islice(rows, 10)) == second[:10]
    state = rows.state_dict()

    resumed = Dataset.range(30).shuffle(30, seed=5)
    rows = iter(resumed)
    rows.load_state_dict(state)
    assert list(rows) == second[10:]
    assert list(resumed) == third  # the next epoch follows the resumed one


OTHERS = {
    "another source": lambda: Dataset.range(11).map(lambda x: x + 1).batch(2),
    "another argument": lambda: Dataset.range(10).map(lambda x: x + 1).batch(3),
    "another function": lambda: Dataset.range(10).map(lambda x: x + 2).batch(2),
    "one step more": lambda: Dataset.range(10).map(lambda x: x + 1).batch(2).take(3),
    "one step less": lambda: Dataset.range(10).map(lambda x: x + 1),
    "other arrays": lambda: Dataset.from_tensor_slices(np.arange(10)),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS.keys())
def test_the_state_of_another_pipeline_is_refused(other):
    rows = iter(Dataset.range(10).map(lambda x: x + 1).batch(2))
    next(rows)
    with pytest.raises(UsageError) as caught:
        rows.load_state_dict(iter(other()).state_dict())
    assert str(caught.value) == (
        "load_state_dict: this state was taken from another pipeline.\n"
        "  Its steps, their arguments and their functions must be the same as then."
    )
    assert next(rows).tolist() == [3, 4]  # and the iterator is as it was


def test_the_state_of_other_arrays_is_refused():
    for other in ([1, 2, 4], [1, 2], [1.0, 2.0, 3.0], [[1], [2], [3]], ["1", "2", "3"], {"a": [1, 2, 3]}):
        with pytest.raises(UsageError, match="another pipeline"):
            iter(Dataset.from_tensor_slices([1, 2, 3])).load_state_dict(
                iter(Dataset.from_tensor_slices(other)).state_dict()
            )


@pytest.mark.parametrize(
    "state",
    [None, 5, {}, {"epoch": 3}, [], {"feedline": 2, "pipeline": "", "epoch": [0], "position": None}, "state"],
)
def test_what_is_no_state_is_refused(state):
    with pytest.raises(UsageError) as caught:
        iter(Dataset.range(3)).load_state_dict(state)
    assert str(caught.value) == "load_state_dict: this is not what state_dict() of a feedline iterator gave."


MIXTURES = {
    "concatenate": lambda: Dataset.range(2).concatenate(Dataset.range(3).map(lambda x: x * 1.5)),
    "map": lambda: Dataset.range(5).map(lambda x: x if x < 2 else str(x)),
    "a structure": lambda: Dataset.range(5).map(lambda x: {"x": x} if x < 2 else (x, x)),
    "flat_map": lambda: Dataset.range(5).flat_map(lambda x: Dataset.from_tensors(x if x < 2 else [str(x)])),
    "ragged": lambda: Dataset.range(4).map(lambda x: Ragged([x], [0, 1]) if x < 2 else np.zeros((1, 1), int)),
}


@pytest.mark.parametrize("make", MIXTURES.values(), ids=MIXTURES.keys())
def test_elements_of_another_kind_are_refused_also_right_after_a_state(make):
    rows = iter(make())
    list(islice(rows, 2))
    state = json.loads(json.dumps(rows.state_dict()))
    with pytest.raises(UsageError):
        next(rows)
    again = iter(make())
    again.load_state_dict(state)
    with pytest.raises(UsageError, match=r"added at .*(here, and was|here, and those before)"):
        next(again)


def test_a_pipeline_of_too_many_steps_says_how_to_go_on():
    dataset = Dataset.range(3)
    for _ in range(400):
        dataset = dataset.map(lambda x: x + 1)
    with pytest.raises(RecursionError) as caught:
        list(dataset)
    assert "this pipeline has 401 steps" in caught.value.__notes__[-1]
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(100_000)  # as the note says
    try:
        assert [int(x) for x in dataset] == [400, 401, 402]
    finally:
        sys.setrecursionlimit(limit)


def test_a_closed_iterator_says_so():
    rows = iter(Dataset.range(5).prefetch(2))
    state = rows.state_dict()
    next(rows)
    rows.close()
    rows.close()
    for use in (lambda: next(rows), rows.state_dict, lambda: rows.load_state_dict(state)):
        with pytest.raises(UsageError) as caught:
            use()
        assert str(caught.value) == "this iterator is closed; iter(dataset) gives a new one."


def test_an_iterator_is_a_context_manager():
    with iter(Dataset.range(5).prefetch(1)) as rows:
        assert next(rows) == 0
        assert threads() == 1
    assert threads() == 0
    with pytest.raises(UsageError, match="closed"):
        next(rows)


def test_an_iterator_ends_once_and_for_all():
    rows = iter(Dataset.range(2).prefetch(1).repeat(2))
    assert list(rows) == [0, 1, 0, 1]
    assert list(rows) == []
    assert next(rows, "end") == "end"


def test_two_iterators_do_not_disturb_each_other():
    dataset = pipeline()
    whole = values(dataset)
    one, other = iter(pipeline()), iter(pipeline())
    got_one, got_other = [], []
    for _ in whole:
        got_one += values([next(one)])
        got_other += values([next(other)])
    assert got_one == got_other == whole
    same = Dataset.range(4)
    assert [(int(a), int(b)) for a, b in zip(same, same, strict=True)] == [(i, i) for i in range(4)]


def test_iterators_in_several_threads_do_not_disturb_each_other():
    dataset = Dataset.range(3000).map(lambda x: x + 1).batch(7).prefetch(3)
    wanted = [batch.tolist() for batch in dataset]
    results = []
    running = [
        threading.Thread(target=lambda: results.append([batch.tolist() for batch in dataset]))
        for _ in range(4)
    ]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert results == [wanted] * 4


def test_an_iterator_that_two_threads_ask_at_once_says_so_and_loses_nothing():
    begun, go_on = threading.Event(), threading.Event()

    def slow(x):
        begun.set()
        assert go_on.wait(200)
        return x

    rows = iter(Dataset.range(3).map(slow))
    found = []
    thread = threading.Thread(target=lambda: found.extend(map(int, rows)))
    thread.start()
    assert begun.wait(200)
    with pytest.raises(UsageError, match="an iterator of its own, or have them take turns"):
        next(rows)
    go_on.set()
    thread.join(200)
    assert found == [0, 1, 2]


def test_so_does_one_that_a_function_of_its_own_asks():
    rows = iter(Dataset.range(3).map(lambda x: next(rows)))
    with pytest.raises(UsageError, match="by a function of its own steps"):
        next(rows)


def test_an_iterator_dropped_without_close_leaves_no_thread():
    wait_until_no_thread_is_left()
    rows = iter(Dataset.range(10**9).prefetch(2).map(lambda x: x).prefetch(2))
    next(rows)
    assert threads() == 2
    del rows
    wait_until_no_thread_is_left()


def test_a_loop_that_breaks_leaves_no_thread():
    for element in Dataset.range(10**9).prefetch(2).repeat():
        if element == 5:
            break
    wait_until_no_thread_is_left()


def test_an_iterator_that_failed_and_was_dropped_leaves_no_thread():
    def failing():
        for _ in Dataset.range(100).prefetch(2).map(lambda x: 1 // int(x - 5)):
            pass

    with pytest.raises(ZeroDivisionError):
        failing()
    gc.collect()
    wait_until_no_thread_is_left()


def test_an_iterator_goes_on_after_an_error():
    rows = iter(Dataset.range(6).map(lambda x: 12 // int(x - 2)).prefetch(2))
    assert [next(rows), next(rows)] == [-6, -12]
    with pytest.raises(ZeroDivisionError):
        next(rows)
    assert list(rows) == [12, 6, 4]


SCRIPT = textwrap.dedent(
    """
    import json, sys
    import numpy as np
    from feedline import Dataset

    words = {"name": ["a", "bb", "", "dddd"] * 9, "x": np.arange(36.0)}
    dataset = (
        Dataset.from_tensor_slices(words)
        .filter(lambda d: d["name"] in {b"a", b"bb", b"", b"c"})
        .shuffle(5, seed=2)
        .interleave(lambda d: Dataset.from_tensors(d).repeat(2), cycle_length=3)
        .prefetch(3)
        .batch(5)
    )
    rows = iter(dataset)
    state = json.loads(sys.stdin.read() or "null")
    if state:
        rows.load_state_dict(state)
    for _ in range(int(sys.argv[1])):
        print([d.tolist() for d in next(rows).values()])
    print(json.dumps(rows.state_dict()))
    """
)


def run(count: int, state: str = "") -> list[str]:
    command = [sys.executable, "-c", SCRIPT, str(count)]
    done = subprocess.run(command, input=state, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_state_taken_in_one_process_is_resumed_in_another():
    *first, state = run(4)
    *second, _ = run(6, state)
    *whole, _ = run(10)
    assert first + second == whole


def test_a_program_may_end_with_an_iterator_at_work():
    script = """
from feedline import Dataset
numbers = Dataset.range(10**9).shuffle(100).prefetch(50).map(lambda x: x + 1, num_parallel_calls=2)
rows = iter(numbers.prefetch(2))
print(next(rows) > 0)
"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


STEPS = {
    "batch": lambda ds: ds.batch(7),
    "padded_batch": lambda ds: ds.map(lambda x: np.ones(x % 3)).padded_batch(4),
    "choose": lambda ds: Dataset.choose_from_datasets([ds, ds.skip(9)], Dataset.range(2).repeat(20)),
    "interleave": lambda ds: Dataset.range(5).interleave(ds.skip, cycle_length=3, block_length=2),
    "shuffle": lambda ds: ds.shuffle(8, seed=5),
    "scan": lambda ds: ds.scan(np.int64(0), lambda total, x: (total + x, total)),
    "unique": lambda ds: ds.map(lambda x: x // 3).unique(),
    "window": lambda ds: ds.window(5, shift=2).flat_map(lambda window: window),
    "group": lambda ds: ds.group_by_window(lambda x: x % 3, lambda key, rows: rows.batch(4), 4),
    "bucket": lambda ds: ds.map(lambda x: np.ones(x % 5)).bucket_by_sequence_length(len, [2, 4], [3, 3, 3]),
    "cache": lambda ds: ds.cache().repeat(2).batch(3),
    "prefetch": lambda ds: ds.prefetch(3).batch(3),
    "processes": lambda ds: ds.map(lambda x: x + 1, num_parallel_calls=2),
    "threads": lambda ds: ds.map(lambda x: x + 1, num_parallel_calls=2, executor="thread"),
}


@pytest.mark.parametrize("at", [1, 2, 17, 33, 40])
@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_an_interrupt_loses_nothing_and_repeats_nothing(step, at):
    calls = 0

    def function(x):
        nonlocal calls
        calls += 1
        if calls == at:
            raise KeyboardInterrupt
        return x

    expected = list(step(Dataset.range(40).map(lambda x: x)))
    dataset = step(Dataset.range(40).map(function))
    rows = iter(dataset)
    before = []
    with pytest.raises(KeyboardInterrupt):
        before.extend(rows)
    state = json.loads(json.dumps(rows.state_dict()))
    assert_same([*before, *rows], expected)
    later = iter(dataset)
    later.load_state_dict(state)
    assert_same([*before, *later], expected)


def test_elements_of_another_kind_are_refused_also_right_after_an_interrupt():
    calls = 0

    def function(x):
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt
        time.sleep(0.01)  # so that each element comes by itself
        return x if x < 2 else np.float32(x)

    rows = iter(Dataset.range(5).filter(lambda x: True).map(function))
    assert [int(next(rows)), int(next(rows))] == [0, 1]
    with pytest.raises(KeyboardInterrupt):
        next(rows)
    with pytest.raises(UsageError, match="float32 here, and was int64"):
        next(rows)

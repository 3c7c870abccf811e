"""Worker processes: the same results as without them, errors in their place, and nothing left behind."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import threading
import time
import types
import warnings

import numpy as np
import pytest

from feedline import AUTOTUNE, Dataset, Ragged, UsageError, WorkerError
from feedline.run.cores import usable_cores
from feedline.testing import Failed, assert_same, check_errors, check_laws
from tests.ops.sources import every_source
from tests.processes import children_of, dismiss_workers, workers_of

WORKERS = [{"num_parallel_calls": 2}, {"num_parallel_calls": 3, "executor": "thread"}]
each_executor = pytest.mark.parametrize("how", WORKERS, ids=["processes", "threads"])


@each_executor
@every_source
def test_parallel_maps_obey_the_laws(source, how):
    check_laws(lambda ds: ds.map(lambda *x: {"all": x}, **how), source)


@each_executor
def test_parallel_maps_of_changing_shapes_obey_the_laws(how):
    def ragged(i):
        return {"ragged": Ragged(np.arange(i), [0, 0, i]), "length": np.ones(i), "text": "x" * i}

    check_laws(lambda ds: ds.map(ragged, **how), Dataset.range(7))


@each_executor
def test_errors_come_in_the_place_of_their_element(how):
    def fail(x):
        if x % 3 == 2:
            raise Failed(f"function, {x}")
        return x

    events = check_errors(lambda ds: ds.map(fail, **how), Dataset.range(14))
    failed = [text for what, text in events if what == "failed"]
    elements = [f"element {x}" for x in (0, 3, 4, 9)]
    assert failed == [
        *elements[:1],
        "function, 2",
        *elements[1:3],
        *map("function, {}".format, (5, 8)),
        elements[3],
        "function, 11",
    ]


@each_executor
def test_an_error_tells_the_step_the_element_and_the_line(how):
    def fail(x):
        return {0: 1, 1: 2}[int(x)]

    with pytest.raises(KeyError) as caught:
        list(Dataset.range(10).map(fail, **how))
    notes = "\n".join(caught.value.__notes__)
    assert "at element 2 of its input" in notes
    assert f"map, added at {__file__}" in notes
    if "executor" not in how:
        assert "return {0: 1, 1: 2}[int(x)]" in notes


@each_executor
def test_another_dtype_later_is_refused(how):
    rows = iter(Dataset.range(50).map(lambda x: float(x) if x in (30, 31) else x, **how))
    assert [int(next(rows)) for _ in range(30)] == list(range(30))
    for number in (30, 31):
        with pytest.raises(UsageError, match="is float32 here, and was int64") as caught:
            next(rows)
        assert f"at element {number} of its input" in "\n".join(caught.value.__notes__)
    assert [int(x) for x in rows] == list(range(32, 50))


@each_executor
def test_a_function_may_write_where_it_might_in_this_process(how):
    def add(x):
        x += 1
        return x

    made = Dataset.range(20).map(lambda x: np.full(3, x))
    assert_same(list(made.map(add, **how)), list(made.map(add)), "")
    data = np.zeros((20, 3))
    with pytest.raises(ValueError, match="read-only"):
        list(Dataset.from_tensor_slices(data).map(add, **how))
    assert not data.any()


@each_executor
def test_results_may_be_written_to(how):
    for x in Dataset.range(20).map(lambda x: np.full(3, x), **how):
        x += 1


class Odd(Exception):
    def __init__(self, one, two):
        super().__init__(one)
        self.lock = threading.Lock()


def raise_odd(x):
    raise Odd("strange", 2)


def test_an_error_that_cannot_be_pickled_is_told():
    with pytest.raises(WorkerError, match="Odd: strange") as caught:
        list(Dataset.range(3).map(raise_odd, 2))
    assert "raise_odd" in "\n".join(caught.value.__notes__)


def test_a_result_that_cannot_cross_is_refused():
    with pytest.raises(UsageError, match="object cannot be put into a frame"):
        list(Dataset.range(3).map(lambda x: object(), 2))


def test_a_function_that_wants_to_end_the_process_does_not():
    with pytest.raises(WorkerError, match=r"SystemExit\(3\)"):
        list(Dataset.range(3).map(lambda x: sys.exit(3), 2))


def test_a_function_of_a_module_that_only_this_process_has():
    module = types.ModuleType("only_here")
    exec("import numpy as np\nSCALE = 3\ndef scaled(x): return x * SCALE", module.__dict__)
    sys.modules["only_here"] = module
    try:
        assert [int(x) for x in Dataset.range(4).map(module.scaled, 2)] == [0, 3, 6, 9]
    finally:
        del sys.modules["only_here"]


def test_workers_stay_for_the_next_iteration():
    ds = Dataset.range(40).map(lambda x: os.getpid(), 2)
    first = {int(pid) for pid in ds}
    for number, _ in enumerate(ds):
        if number == 3:
            break
    assert {int(pid) for pid in ds} <= first


def test_no_more_workers_are_started_than_there_is_work_for():
    dismiss_workers()
    assert [int(x) for x in Dataset.range(3).map(lambda x: x + 1, 500)] == [1, 2, 3]
    assert len(workers_of(os.getpid())) <= 3


def test_steps_of_one_pipeline_share_workers():
    pids = Dataset.range(40).map(lambda x: os.getpid(), 2).map(lambda pid: (pid, os.getpid()), 2)
    assert len({int(pid) for pair in pids for pid in pair}) <= 2


def test_pipelines_in_several_threads_at_once():
    found = {}

    def read(number):
        ds = Dataset.range(300).map(lambda x: x * number, 2).prefetch(10)
        found[number] = [int(x) for x in ds]

    threads = [threading.Thread(target=read, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: [x * number for x in range(300)] for number in range(4)}


def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def held():
    gc.collect()
    return len(os.listdir("/proc/self/fd")), threading.active_count(), len(children_of(os.getpid()))


def test_many_epochs_hold_no_more_than_a_few():
    ds = Dataset.range(40).map(lambda x: np.full(10_000, x), 2).batch(4)
    for epoch in range(60):
        for number, _ in enumerate(ds):
            if epoch % 3 == 2 and number == 4:
                break
        if epoch == 5:
            before, memory = held(), resident()
    now = held()
    assert all(one <= other for one, other in zip(now, before, strict=True)), (now, before)
    assert resident() < memory + 20e6


def test_memory_comes_back_when_arrays_die():
    ds = Dataset.range(200).map(lambda x: np.full(1 << 20, x, np.int8), 2)
    next(iter(ds))
    before = resident()
    for x in ds:
        assert x[0] == x[-1]
    assert resident() < before + 64e6
    kept = [x for x in ds.take(50)]
    assert [int(x[0]) for x in kept] == list(range(50))  # none was overwritten by a later one
    assert [int(x[-1]) for x in kept] == list(range(50))


SCRIPT = """
import feedline as fl

def double(x):
    return 2 * x

print([int(x) for x in fl.Dataset.range(5).map(double, num_parallel_calls=2)])
"""


@pytest.mark.parametrize("way", ["a script", "-c", "stdin", "no stdin"])
def test_nothing_is_asked_of_the_users_script(way, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    arguments = {"-c": ["-c", SCRIPT], "stdin": ["-"]}.get(way, [str(script)])
    close = (lambda: os.close(0)) if way == "no stdin" else None
    done = subprocess.run(
        [sys.executable, *arguments],
        input=SCRIPT if way == "stdin" else None,
        capture_output=True,
        text=True,
        timeout=200,
        preexec_fn=close,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("[0, 2, 4, 6, 8]\n", "", 0)


def test_a_function_of_a_module_beside_the_script(tmp_path):
    (tmp_path / "augment.py").write_text("def double(x):\n    return 2 * x\n")
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.replace("def double(x):\n    return 2 * x", "from augment import double"))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=200, cwd="/")
    assert (done.stdout, done.returncode) == ("[0, 2, 4, 6, 8]\n", 0), done.stderr


def test_what_a_worker_prints_is_seen(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        textwrap.dedent("""
        import sys
        import feedline as fl

        def tell(x):
            print("worker says", int(x), file=sys.stderr)
            return x

        list(fl.Dataset.range(1).map(tell, num_parallel_calls=1))
    """)
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=200)
    assert done.stderr == "worker says 0\n"


def test_a_forked_child_leaves_the_workers_to_its_parent():
    ds = Dataset.range(1000).map(lambda x: x, 2)
    rows = iter(ds)
    assert int(next(rows)) == 0
    child = os.fork()
    if child == 0:
        try:
            list(rows)
        except UsageError:
            del rows, ds
            gc.collect()
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert [int(x) for x in rows] == list(range(1, 1000))


def test_executor_must_be_known():
    with pytest.raises(UsageError, match='must be "process" or "thread"'):
        Dataset.range(3).map(lambda x: x, 2, executor="cloud")


def test_stats_tell_of_workers_and_their_deaths(tmp_path):
    def fragile(x):
        if x == 5 and not (tmp_path / "died").exists():
            (tmp_path / "died").touch()
            os._exit(1)
        return x

    ds = Dataset.range(20).map(fragile, 2)
    list(ds)
    (step,) = [row for row in ds.stats().rows if row.step.startswith("map")]
    assert (step.elements, step.workers, step.deaths) == (20, 2, 1)
    assert "2, 1 died" in str(ds.stats())


def test_autotune_sends_only_what_takes_long_to_workers():
    def slow(x):
        end = time.perf_counter() + 0.001
        while time.perf_counter() < end:
            pass
        return x

    def workers(function):
        ds = Dataset.range(1000).map(function, AUTOTUNE)
        assert [int(x) for x in ds] == list(range(1000))
        return ds.stats().rows[-1].workers

    assert workers(slow) == usable_cores()
    # On a machine that stalls, a function may look slow once: but not again and again.
    assert 0 in [workers(lambda x: x) for _ in range(5)]


def test_autotune_keeps_what_cannot_be_sent():
    lock = threading.Lock()

    def slow(x):
        with lock:
            time.sleep(0.001)
        return x

    ds = Dataset.range(1000).map(slow, AUTOTUNE)
    with pytest.warns(RuntimeWarning, match="(?s)cannot be sent to a worker.*stays in this process"):
        assert [int(x) for x in ds] == list(range(1000))
    assert ds.stats().rows[-1].workers == 0


def test_autotune_is_not_misled_by_one_quick_row():
    def slow(x):
        time.sleep(0.002 if x else 0)
        return x

    ds = Dataset.range(1000).map(slow, AUTOTUNE)
    assert [int(x) for x in ds] == list(range(1000))
    assert ds.stats().rows[-1].workers == usable_cores()


def test_no_row_is_lost_when_workers_cannot_be_had():
    lock = threading.Lock()

    def slow(x):
        with lock:
            time.sleep(0.001)
        return x

    rows = iter(Dataset.range(1000).map(slow, AUTOTUNE))
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        while len(found) < 1000:
            try:
                found.append(int(next(rows)))
            except RuntimeWarning:
                continue
    assert found == list(range(1000))


def test_options_bound_the_number_of_workers():
    for workers, processes in ((0, 0), (1, 1)):
        ds = Dataset.range(20).map(lambda x: os.getpid(), 3).with_options(workers=workers)
        assert len({int(pid) for pid in ds} - {os.getpid()}) == processes

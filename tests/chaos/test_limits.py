"""Workers that get no memory, no descriptors, no time; and owners that get no workers."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from feedline import Dataset
from tests.processes import dismiss_workers, run_python, workers_of


def test_memory_that_a_function_does_not_get_is_its_error():
    def greedy(x):
        import resource

        if x == 3:
            before = resource.getrlimit(resource.RLIMIT_AS)
            resource.setrlimit(resource.RLIMIT_AS, (2 << 30, before[1]))
            try:
                return np.ones(1 << 34, np.uint8)
            finally:
                resource.setrlimit(resource.RLIMIT_AS, before)
        return np.ones(1, np.uint8)

    rows = iter(Dataset.range(6).map(greedy, 2))
    assert len(list(islice(rows, 3))) == 3
    with pytest.raises(MemoryError) as caught:
        next(rows)
    assert "at element 3 of its input" in "\n".join(caught.value.__notes__)
    assert len(list(rows)) == 2


# The kernel ends the process of the group that has most: the worker at 5.
GREEDY = """
import json, sys
from pathlib import Path
import numpy as np
import feedline as fl

group, limit = Path(sys.argv[1]), sys.argv[2]
(group / limit).write_text(str(400 << 20))
(group / "cgroup.procs").write_text("0")

def greedy(x):
    return np.ones((2 << 30) if x == 5 else 10, np.uint8).sum()

rows = iter(fl.Dataset.range(10).map(greedy, num_parallel_calls=2))
found = []
while True:
    try:
        found.append(int(next(rows)))
    except StopIteration:
        break
    except fl.WorkerDied as died:
        found.append("\\n".join([str(died), *died.__notes__]))
print(json.dumps(found))
"""


@pytest.fixture
def memory_group():
    """A cgroup of our own, whose memory can be limited, and the name of the limit."""
    root = Path("/sys/fs/cgroup")
    first, limit = root / "memory", "memory.limit_in_bytes"
    if not first.is_dir():
        first, limit = root, "memory.max"
    group = first / f"feedline-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"the kernel's own kill needs a cgroup that can be made: {error}")
    try:
        if not (group / limit).exists():
            pytest.skip("the kernel's own kill needs a cgroup whose memory can be limited")
        yield str(group), limit
    finally:
        for _ in range(100):  # until the last process of it is gone
            try:
                group.rmdir()
                break
            except OSError:
                time.sleep(0.05)


def test_a_worker_that_the_kernel_kills_for_its_memory_is_told_of(memory_group):
    done = run_python(GREEDY, *memory_group)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found[:5] + found[6:] == [10] * 9
    assert "signal SIGKILL" in found[5]
    assert "Perhaps it took more memory than there is." in found[5]
    assert "at element 5 of its input" in found[5]


def test_a_worker_that_is_stopped_is_waited_for():
    def slow(x):
        time.sleep(0.001)
        return x

    rows = iter(Dataset.range(200).map(slow, 2))
    found = [int(next(rows)) for _ in range(20)]
    stopped = workers_of(os.getpid())
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    threading.Timer(0.5, lambda: [os.kill(pid, signal.SIGCONT) for pid in stopped]).start()
    assert found + [int(x) for x in rows] == list(range(200))


FEW_FILES = """
import resource
import numpy as np
import feedline as fl

resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))
kept = []
for epoch in range(3):
    for x in fl.Dataset.range(200).map(lambda x: np.full(10_000, x), num_parallel_calls=2):
        kept.append(x)
print(all((x == i % 200).all() for i, x in enumerate(kept)), len(kept))
"""


def test_few_descriptors_are_needed_however_much_is_kept():
    done = run_python(FEW_FILES)
    assert (done.stdout, done.stderr) == ("True 600\n", "")


LOUD = """
import feedline as fl

def loud(x):
    print("x" * 100_000, flush=True)
    return x

print([int(x) for x in fl.Dataset.range(20).map(loud, num_parallel_calls=2)] == list(range(20)))
"""


def test_workers_may_write_much_to_stdout():
    done = run_python(LOUD)
    assert (done.stdout.count("x"), done.stdout.count("True"), done.stderr) == (20 * 100_000, 1, "")


def test_large_results_come_whole():
    ds = Dataset.range(2).map(lambda x: np.full(300 << 20, x + 1, np.uint8), 2)
    for number, x in enumerate(ds, 1):
        assert x.nbytes == 300 << 20
        assert x.min() == x.max() == number


def test_a_function_may_start_threads_and_processes():
    def busy(x):
        import subprocess

        threading.Thread(target=time.sleep, args=(1000,)).start()
        return int(subprocess.run(["echo", str(x)], capture_output=True, check=True).stdout)

    assert [int(x) for x in Dataset.range(10).map(busy, 2)] == list(range(10))
    dismiss_workers()  # hangs if it waits for their threads


def test_functions_with_workers_of_their_own():
    def total(x):
        return sum(int(y) for y in Dataset.range(x).map(lambda y: y, 1))

    assert [int(x) for x in Dataset.range(5).map(total, 1)] == [0, 0, 1, 3, 6]
    dismiss_workers()

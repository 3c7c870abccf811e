"""Deaths, errors and surroundings that are easily forgotten, each in a program of its own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.processes import comes_true, is_there, run_python, start_python, workers_of

AT_WORK = """
import os, sys, time
import numpy as np
import feedline as fl
from feedline import Dataset

def workers():
    children = open(f"/proc/self/task/{os.getpid()}/children").read().split()
    return [int(pid) for pid in children]

def shown(error):
    return "\\n".join([type(error).__name__, str(error), *getattr(error, "__notes__", [])])
"""


def run(code, **how):
    return run_python(AT_WORK + code, **how)


QUICK = """
rows, found = iter(Dataset.range(100_000).map(lambda x: x + 1, 2)), []
for x in rows:
    found.append(int(x))
    if len(found) == 30_000:
        os.kill(workers()[0], 9)
print(found == list(range(1, 100_001)))
"""


def test_many_rows_of_a_killed_worker_are_sent_again():
    assert run(QUICK).stdout == "True\n"


PARENT = """
def fatal(x):
    if x == 5:
        if os.fork() == 0:
            os.closerange(0, 3)  # or it would be waited for
            while os.path.exists(f"/proc/{owner}"):
                time.sleep(0.05)
            os._exit(0)
        os.kill(os.getpid(), 9)
    return x

owner = os.getpid()
try:
    list(Dataset.range(10).map(fatal, 2))
except fl.WorkerDied as error:
    print("died")
"""


def test_a_death_is_noticed_though_a_child_of_the_worker_lives():
    assert run(PARENT, stdin=subprocess.DEVNULL).stdout == "died\n"


FORKED = """
rows = iter(Dataset.range(10**6).map(lambda x: x, 2))
next(rows)
child = os.fork()
if child == 0:
    time.sleep(1000)
    os._exit(0)
print(child, flush=True)
time.sleep(1000)
"""


def test_workers_end_with_their_owner_though_a_child_of_it_lives():
    with start_python(AT_WORK + FORKED, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as owner:
        child = int(owner.stdout.readline())
        try:
            workers = workers_of(owner.pid)
            owner.kill()
            owner.wait(200)
            assert workers
            assert comes_true(lambda: not any(map(is_there, workers)))
            assert is_there(child)
        finally:
            os.kill(child, 9)


SIGNAL_40 = """
def fatal(x):
    if x == 5:
        os.kill(os.getpid(), 40)
    return x

try:
    list(Dataset.range(10).map(fatal, 2))
except fl.WorkerDied as error:
    print("signal 40" in str(error))
"""


def test_a_death_by_a_signal_without_a_name():
    assert run(SIGNAL_40).stdout == "True\n"


MANY_IDLE = """
list(Dataset.range(40).map(lambda x: x, 5))
for pid in workers():
    os.kill(pid, 9)
print([int(x) for x in Dataset.range(40).map(lambda x: x, 2)] == list(range(40)))
"""


def test_many_idle_workers_that_were_killed_are_replaced():
    assert run(MANY_IDLE).stdout == "True\n"


DAEMON = """
def loud(x):
    print("text")
    print("text", file=sys.stderr)
    return x

told = sys.argv[1]
found = [int(x) for x in Dataset.range(10).map(loud, 2)]
with open(told, "w") as file:
    print(found, file=file)
"""


@pytest.mark.parametrize(
    "closed",
    [
        [0],
        [2],
        [0, 1],
        [0, 1, 2],
    ],
    ids=str,
)
def test_an_owner_without_standard_streams(closed, tmp_path):
    told = tmp_path / "told"
    command = [sys.executable, "-c", AT_WORK + DAEMON, str(told)]
    subprocess.run(command, timeout=200, preexec_fn=lambda: [os.close(fd) for fd in closed])
    assert told.read_text() == f"{list(range(10))}\n"


EMPTY = """
for made in (lambda x: np.empty((x, 0)), lambda x: np.empty((0, 3)), lambda x: {"a": b"", "b": np.empty(0)}):
    here, there = (list(Dataset.range(4).map(made, calls)) for calls in (None, 2))
    print(repr(here) == repr(there))
"""


def test_results_without_elements():
    assert run(EMPTY).stdout == "True\n" * 3


ERRORS = """
import gc
gc.disable()

def fail(x):
    raise ValueError(x)

for _ in range(4):
    try:
        list(Dataset.range(10).map(fail, 2))
    except ValueError:
        pass
print(len(workers()))
"""


def test_workers_are_free_when_an_error_was_caught():
    assert run(ERRORS).stdout == "2\n"


LATER = """
import importlib, tempfile
sys.dont_write_bytecode = True
kept = Dataset.range(2).map(lambda x: x, 2)
list(kept)
directory = tempfile.mkdtemp(dir=sys.argv[1])

def write(by):
    with open(f"{directory}/scaling.py", "w") as file:
        file.write(f"def scaled(x):\\n    return x * {by}\\n")
    importlib.invalidate_caches()

def text(x):
    with open("here.txt") as file:
        return file.read()

what = sys.argv[2]
if what == "directory":
    os.chdir(directory)
    with open("here.txt", "w") as file:
        file.write("text")
    print(*Dataset.range(1).map(text, 1))
else:
    sys.path.append(directory)
    write(3)
    import scaling
    print(*map(int, Dataset.range(3).map(scaling.scaled, 2)))
    if what == "edited":
        write(500)
        importlib.reload(scaling)
        print(*map(int, Dataset.range(3).map(scaling.scaled, 2)))
"""


@pytest.mark.parametrize(
    ("what", "printed"), [("path", "0 3 6\n"), ("directory", "b'text'\n"), ("edited", "0 3 6\n0 500 1000\n")]
)
def test_kept_workers_follow_what_their_owner_has_changed(what, printed, tmp_path):
    done = run_python(AT_WORK + LATER, str(tmp_path), what, timeout=200)
    assert done.stdout == printed, done.stderr


NO_FILES = """
import resource

ds = Dataset.range(60).map(lambda x: np.full(1000 * x, x), 2)  # which needs new memory now and then
rows = iter(ds)
found = [len(next(rows)) // 1000 for _ in range(10)]
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
held = []
try:
    while True:
        held.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    pass
try:
    while True:
        found.append(len(next(rows)) // 1000)
except Exception as error:
    for fd in held:
        os.close(fd)
    again = iter(ds)
    again.load_state_dict(rows.state_dict())
    found.extend(len(x) // 1000 for x in again)
    print(found == list(range(60)), "open files" in shown(error))
"""


def test_an_owner_that_runs_out_of_descriptors_can_go_on():
    assert run(NO_FILES).stdout == "True True\n"


NO_PROCESSES = """
import resource
import feedline.run.pickling, feedline.run.processes
os.setuid(65534)
resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
try:
    list(Dataset.range(5).map(lambda x: x, 2))
except fl.WorkerError as error:
    print("map, added at" in str(error))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="the limit is per user, so it takes one without processes")
def test_an_owner_that_may_start_no_process_is_told_so():
    assert run(NO_PROCESSES).stdout == "True\n"


UNPICKLABLE = """
import threading
lock = threading.Lock()

def locked(x):
    with lock:
        return x

try:
    list(Dataset.range(5).map(locked, 2))
except Exception as error:
    print("map, added at" in shown(error), "lock" in shown(error))
"""


def test_a_function_that_cannot_be_sent_is_told_with_its_step():
    assert run(UNPICKLABLE).stdout == "True True\n"


CACHED = """
import functools

@functools.cache
def double(x):
    return 2 * x

print([int(x) for x in Dataset.range(4).map(lambda x: double(int(x)), 2)])
"""


def test_a_cached_function_of_the_script():
    assert run(CACHED).stdout == "[0, 2, 4, 6]\n"


TOO_LARGE = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))  # which is for shared memory too
rows = iter(Dataset.range(10).map(lambda x: np.ones((1 << 20) if x == 5 else 1, np.float64), 2))
found = 0
while True:
    try:
        found += len(next(rows)) == 1
    except StopIteration:
        break
    except OSError as error:
        print("File too large" in str(error), "at element 5 of its input" in shown(error))
print(found)
"""


def test_a_result_for_which_there_is_no_memory_is_an_error_of_its_row():
    assert run(TOO_LARGE).stdout == "True True\n9\n"


GENERATOR = """
def fatal(shard):
    yield from range(7)
    os.kill(os.getpid(), 9)

try:
    list(Dataset.from_generator(fatal, workers=1))
except fl.WorkerDied as error:
    print("at element 7 of those that this stream gave" in shown(error))
"""


def test_the_element_of_a_generator_that_kills_its_worker_is_told():
    assert run(GENERATOR).stdout == "True\n"


# Python looks for signals after each call: so an interrupt comes after each call of a function in turn.
INTERRUPTED = """
import dis
from feedline.run.processes import Crew

class Interrupt:
    def __init__(self, function, offset):
        self.code, self.offset, self.done = function.__code__, offset, False

    def __call__(self, frame, event, argument):
        if frame.f_code is self.code:
            frame.f_trace_opcodes = True
            if event == "opcode" and frame.f_lasti == self.offset:
                sys.settrace(None)
                self.done = True
                raise KeyboardInterrupt
            return self

def slow(x):
    time.sleep(0.002)
    return x

ds = Dataset.range(20).map(slow, 2)
interrupts = 0
for function in (Crew.wait, Crew._is_over, Crew._take_in):
    steps = list(dis.get_instructions(function))
    for call, after in zip(steps, steps[1:]):
        if not call.opname.startswith("CALL"):
            continue
        rows = iter(ds)
        found = [int(next(rows)) for _ in range(5)]
        interrupt = Interrupt(function, after.offset)
        sys.settrace(interrupt)
        try:
            found.extend(int(x) for x in rows)
        except KeyboardInterrupt:
            pass
        sys.settrace(None)
        interrupts += interrupt.done
        found.extend(int(x) for x in rows)
        assert found == list(range(20)), (function, call.positions.lineno, found)
print(interrupts > 5)
"""


def test_an_interrupt_after_any_call():
    assert run(INTERRUPTED, timeout=200).stdout == "True\n"

"""Programs that end while readers, writers and iterators are alive: stderr shows only what is theirs."""

from __future__ import annotations

import pytest

from tests.processes import run_python

# Each makes one object, in the middle of its work.
PROGRAM = """
import gc, os, signal, sys, threading, time, warnings
warnings.simplefilter("ignore")  # about writers that were not closed
import feedline as fl
from feedline import _native

names = iter(range(1_000_000))
with fl.TFRecordWriter("data.tfrecord") as writer:
    for number in range(2000):
        writer.write({"x": [number]})
examples = fl.Dataset.from_tfrecords("data.tfrecord", {"x": fl.FixedLenFeature((), "int64")})
records = fl.Dataset.from_tfrecords("data.tfrecord")

def written(writer):
    writer.write({"x": [1]})
    return writer

def begun(dataset):
    rows = iter(dataset)
    next(rows)
    return rows

MAKERS = [
    lambda: written(fl.TFRecordWriter(f"{next(names)}.tfrecord")),
    lambda: written(fl.AppendWriter("grows.tfrecord")),
    lambda: begun(fl.records.read("data.tfrecord")),
    lambda: begun(examples),
    lambda: begun(records.shuffle(50)),
    lambda: begun(examples.batch(4).prefetch(2)),
    lambda: begun(fl.Dataset.range(2).interleave(lambda _: records, cycle_length=2)),
    lambda: begun(examples.map(lambda row: row, 2)),
    lambda: begun(examples.map(lambda row: row, 2, executor="thread")),
]

def make_all():
    return [make() for make in MAKERS]

class Cycle:
    def __init__(self):
        self.itself, self.held = self, make_all()

def fail():
    held = make_all()
    raise KeyError(len(held))

def use(held):
    ready.release()
    while True:
        for one in held:
            if hasattr(one, "write"):
                one.write({"x": [1]})
            else:
                next(one, None)
        time.sleep(0.001)

def in_threads():
    # Without the last: concurrent.futures itself refuses to go on when a program ends.
    for held in (make_all()[:-1], make_all()[:-1]):
        threading.Thread(target=use, args=(held,), daemon=True).start()
        ready.acquire(timeout=30)

ready = threading.Semaphore(0)
"""

KEPT = {
    "in a global": "kept = make_all()",
    "in a cycle": "Cycle()",
    "in a traceback": "try:\n    fail()\nexcept KeyError as error:\n    kept = error",
    "in daemon threads": "in_threads()",
}
ENDS = {
    "return": ("", 0),
    "exception": ("raise ValueError('the end')", 1),
    "sys.exit": ("sys.exit(3)", 3),
    "Ctrl-C": ("os.kill(os.getpid(), signal.SIGINT); time.sleep(30)", -2),
}


def stderr_of(code, cwd, code_at_end):
    done = run_python(code, cwd=cwd)
    assert done.returncode == code_at_end, done.stderr
    return done.stderr


@pytest.mark.parametrize(("end", "code"), ENDS.values(), ids=ENDS)
@pytest.mark.parametrize("keep", KEPT.values(), ids=KEPT)
def test_nothing_is_said_about_objects_that_are_alive_at_the_end(keep, end, code, tmp_path):
    said = stderr_of("\n".join([PROGRAM, keep, end]), tmp_path, code)
    assert "nanobind" not in said
    assert "Exception in thread" not in said
    assert "Exception ignored" not in said
    assert not said or end


@pytest.mark.parametrize("keep", [KEPT[where] for where in KEPT if "thread" not in where])
def test_nothing_is_leaked(keep, tmp_path):
    code = "\n".join([PROGRAM, "_native.set_leak_warnings(True)", "for _ in range(3):\n    make_all()", keep])
    assert stderr_of(code, tmp_path, 0) == ""


def test_what_is_leaked_would_be_told(tmp_path):
    # One reference more than anybody gives back.
    leak = "import ctypes\nctypes.pythonapi.Py_IncRef(ctypes.py_object(_native.Schema()))"
    code = "\n".join([PROGRAM, "_native.set_leak_warnings(True)", leak])
    assert "nanobind: leaked" in stderr_of(code, tmp_path, 0)


GROWTH = """
from pathlib import Path

def resident():
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

makers = [make for number, make in enumerate(MAKERS) if number != 7]  # workers take long to start
for epoch in range(120):
    for make in makers:
        make()
    if epoch == 40:
        before = resident()
print(resident() - before < 10e6, (resident() - before) // 1000)
"""


def test_objects_that_are_dropped_take_no_memory(tmp_path):
    done = run_python(PROGRAM + GROWTH, cwd=tmp_path, timeout=120)
    assert done.stdout.startswith("True"), (done.stdout, done.stderr)


FRAMEWORK = """
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
kept = [iter(examples.batch(4).to_tf()), iter(fl.Dataset.range(2000).map(lambda x: x, 2).batch(4).to_keras())]
for rows in kept:
    next(rows)
"""


@pytest.mark.parametrize(("end", "code"), ENDS.values(), ids=ENDS)
def test_nothing_is_said_about_what_a_framework_reads_from(end, code, tmp_path):
    pytest.importorskip("tensorflow")
    pytest.importorskip("keras")
    assert "nanobind" not in stderr_of("\n".join([PROGRAM, FRAMEWORK, end]), tmp_path, code)

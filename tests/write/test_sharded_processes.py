"""ShardedWriter in several processes: pools of others, and feedline's own workers."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from importlib.util import find_spec

import pytest

import feedline as fl
from feedline import ShardedWriter, records
from tests.processes import run_python

# A program with a file, because multiprocessing's spawn imports it again.
POOLS = """
import concurrent.futures, multiprocessing, os, sys
import feedline as fl

def task(given):
    writer, n = given
    for i in range(10):
        writer.write(b"%d" % (n * 10 + i))

def examples(producer):
    for i in range(100):
        producer.write({"x": i, "late": [i] if i else []})

def misfit(writer):
    try:
        writer.write({"x": 1, "late": ["text"]})
    except fl.SchemaError as error:
        return error.feature

if __name__ == "__main__":
    directory, kind, start = sys.argv[1:]
    context = multiprocessing.get_context(start)
    with fl.ShardedWriter(directory, shards=3) as writer:
        tasks = [(writer, n) for n in range(20)]
        if kind == "Pool":
            with context.Pool(2) as pool:  # which kills its processes at the end
                pool.map(task, tasks)
        elif kind == "Executor":
            with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
                list(pool.map(task, tasks))
        elif kind == "Process":
            children = [context.Process(target=task, args=(one,)) for one in tasks[:4]]
            for child in children:
                child.start()
            for child in children:
                child.join()
            list(map(task, tasks[4:]))
        elif kind == "threads":
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                list(pool.map(task, tasks))
        else:
            with context.Pool(2) as pool:
                pool.map(examples, [writer.producer(name) for name in "abc"])
                print(pool.map(misfit, [writer] * 4), misfit(writer))
        parts = sum(name.endswith(".part") for _, _, names in os.walk(directory) for name in names)
        assert parts <= 8, parts
"""


def run(tmp_path, *arguments):
    script = tmp_path / "program.py"
    script.write_text(POOLS)
    told = subprocess.run(
        [sys.executable, script, tmp_path / "set", *arguments], capture_output=True, text=True, timeout=100
    )
    assert told.returncode == 0, told.stderr
    return told.stdout


@pytest.mark.parametrize("kind", ["Pool", "Executor", "Process"])
@pytest.mark.parametrize("start", ["fork", "spawn", "forkserver"])
def test_processes_of_pools_write_into_one_set(tmp_path, kind, start):
    run(tmp_path, kind, start)
    assert sorted(map(int, records.read(tmp_path / "set"))) == list(range(200))


def test_threads_of_a_pool_write_into_one_set(tmp_path):
    run(tmp_path, "threads", "fork")
    assert sorted(map(int, records.read(tmp_path / "set"))) == list(range(200))


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_examples_are_alike_in_all_processes(tmp_path, start):
    assert run(tmp_path, "examples", start) == "['late', 'late', 'late', 'late'] late\n"
    features = {"x": fl.FixedLenFeature([], "int64"), "late": fl.VarLenFeature("int64")}
    rows = list(fl.Dataset.from_tfrecords(str(tmp_path / "set"), features))
    assert [int(row["x"]) for row in rows] == [*range(100)] * 3


FAILS = """
import multiprocessing, os, signal, sys, time
import feedline as fl

def writes(writer, n, end):
    with writer:
        writer.write(b"%d" % n)
        ends(n, end)

def names(writer, n, end):
    with writer.producer(str(n)) as producer:
        producer.write(b"%d" % n)
        ends(n, end)

def ends(n, end):
    if n == 2 and end == "is killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if n == 2 and end == "is still at work":
        open("begun", "w").close()
        wait_for("over")
    assert n != 2, "it is two"

def wait_for(file):
    while not os.path.exists(file):
        time.sleep(0.01)

if __name__ == "__main__":
    directory, task, start, end = sys.argv[1:]
    context = multiprocessing.get_context(start)
    try:
        with fl.ShardedWriter(directory) as writer:
            children = [context.Process(target=globals()[task], args=(writer, n, end)) for n in range(4)]
            for child in children:
                child.start()
            if end == "is still at work":
                wait_for("begun")
                children.pop(2)
            for child in children:
                child.join()  # and nobody looks at how it ended
    finally:
        open("over", "w").close()
"""

ENDS = {
    "fails": "AssertionError: it is two",
    "is killed": "its `with` block has not ended: it was killed there, or is still at work",
    "is still at work": "its `with` block has not ended: it was killed there, or is still at work",
}


@pytest.mark.parametrize("task", ["writes", "names"])
@pytest.mark.parametrize("start", ["fork", "spawn"])
@pytest.mark.parametrize("end", list(ENDS))
def test_the_set_is_not_committed_when_a_process(end, start, task, tmp_path):
    script = tmp_path / "program.py"
    script.write_text(FAILS)
    arguments = [sys.executable, script, tmp_path / "set", task, start, end]
    told = subprocess.run(arguments, capture_output=True, text=True, timeout=200, cwd=tmp_path)
    assert told.returncode == 1
    refused = next(
        line for line in told.stderr.splitlines() if "WriteError" in line and "not complete" in line
    )
    assert ENDS[end] in refused
    assert [name for name in os.listdir(tmp_path / "set") if not name.startswith(".")] == []


def test_tensorflow_reads_what_several_processes_wrote(tmp_path):
    tf = pytest.importorskip("tensorflow", reason="TensorFlow is the oracle")
    with ShardedWriter(tmp_path, shards=3) as writer:

        def write(x):
            writer.write_batch({"x": [x, x + 500], "half": [float(x / 2), float(x / 4)]})
            return os.getpid()

        assert len(set(map(int, fl.Dataset.range(500).map(write, num_parallel_calls=2)))) > 1
        with writer.producer("named") as producer:
            producer.write({"x": 1000, "half": 0.5})
    paths = [str(path) for path in sorted(tmp_path.glob("*.tfrecord"))]
    features = {"x": tf.io.FixedLenFeature([], tf.int64), "half": tf.io.FixedLenFeature([], tf.float32)}
    rows = [
        tf.io.parse_single_example(record, features)
        for record in tf.data.TFRecordDataset(paths).as_numpy_iterator()
    ]
    assert sorted(int(row["x"]) for row in rows) == list(range(1001))
    assert sorted(float(row["half"]) for row in rows)[-1] == 249.5


@pytest.mark.parametrize("executor", ["process", "thread"])
def test_workers_of_feedline_write_into_one_set(tmp_path, executor):
    with ShardedWriter(tmp_path, shards=2) as writer:

        def write(x):
            writer.write({"x": x})
            return os.getpid()

        pids = set(map(int, fl.Dataset.range(500).map(write, num_parallel_calls=2, executor=executor)))
    assert (os.getpid() in pids) == (executor == "thread")
    rows = fl.Dataset.from_tfrecords(str(tmp_path), {"x": fl.FixedLenFeature([], "int64")})
    assert sorted(int(row["x"]) for row in rows) == list(range(500))


IN_RAY = """
import sys
import ray
import feedline as fl

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
with fl.ShardedWriter(sys.argv[1]) as writer:
    task = ray.remote(lambda n: writer.producer(str(n)).write(b"%d" % n))
    ray.get([task.remote(n) for n in range(10)])
"""


def test_ray_tasks_write_into_one_set(tmp_path):
    if find_spec("ray") is None:
        pytest.skip("Ray is not installed")
    ended = run_python(IN_RAY, str(tmp_path), timeout=200)  # a program: Ray warns of much
    assert ended.returncode == 0, ended.stderr
    assert sorted(map(int, records.read(tmp_path))) == list(range(10))


def test_a_copy_in_the_same_process_writes_and_does_not_commit(tmp_path):
    with ShardedWriter(tmp_path) as writer:
        with pickle.loads(pickle.dumps(writer)) as copy:
            copy.write(b"one", key=1)
        producer = pickle.loads(pickle.dumps(writer.producer("a")))
        producer.write(b"two", key=2)
        assert (writer.count, writer.last_key) == (copy.count, copy.last_key) == (1, 1)
        assert writer.producer("a").count == 1
        copy.abort()
        assert not [name for name in os.listdir(tmp_path) if not name.startswith(".")]
        writer.write(b"three")
    assert list(records.read(tmp_path)) == [b"one", b"three", b"two"]

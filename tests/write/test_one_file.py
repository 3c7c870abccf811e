"""TFRecordWriter: one file, many threads, all or nothing."""

from __future__ import annotations

import errno
import os
import pickle
import resource
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress

import numpy as np
import pytest

import feedline as fl
from feedline import SchemaError, TFRecordWriter, UsageError, WriteError, records
from tests.processes import comes_true, run_python, start_python
from tests.write.disk import watched


def hidden(directory):
    return [name for name in os.listdir(directory) if name.startswith(".")]


@pytest.mark.parametrize("compression", [None, "", "GZIP", "ZLIB"])
def test_tensorflow_reads_what_was_written(tmp_path, compression):
    tf = pytest.importorskip("tensorflow")
    path = str(tmp_path / "a.tfrecord")
    wanted = [bytes([n % 256]) * n for n in (*range(50), 100_000, 3_000_000, 0)]
    with TFRecordWriter(path, compression=compression) as writer:
        for record in wanted:
            writer.write(record)
    assert list(tf.data.TFRecordDataset(path, compression or "").as_numpy_iterator()) == wanted
    assert list(records.read(path)) == wanted


def test_a_file_is_on_the_disk_before_it_has_its_name_and_the_name_after_that(tmp_path, monkeypatch):
    asked = watched(monkeypatch)
    with TFRecordWriter(tmp_path / "a.tfrecord") as writer:
        writer.write(b"one")
    (first, partial), *rest = asked
    assert first == "sync"
    assert partial.parent == tmp_path
    assert partial.name.startswith(".")
    assert rest == [("name", tmp_path / "a.tfrecord"), ("sync", tmp_path)]


def test_examples_are_read_back(tmp_path):
    path = tmp_path / "a.tfrecord"
    with TFRecordWriter(path) as writer:
        writer.write({"x": np.arange(4.0).reshape(2, 2), "label": 7, "name": "a"})
        writer.write_batch({"x": np.ones((3, 2, 2)), "label": [1, 2, 3], "name": ["b", "c", "d"]})
    features = {
        "x": fl.RawFeature([2, 2], "float64"),
        "label": fl.FixedLenFeature([], "int64"),
        "name": fl.FixedLenFeature([], "string"),
    }
    rows = list(fl.Dataset.from_tfrecords(path, features))
    assert [int(row["label"]) for row in rows] == [7, 1, 2, 3]
    assert b"".join(row["name"] for row in rows) == b"abcd"
    np.testing.assert_array_equal(rows[0]["x"], [[0, 1], [2, 3]])


def test_a_batch_may_be_records_already(tmp_path):
    with TFRecordWriter(tmp_path / "a") as writer:
        writer.write_batch([b"a", b"bc"])
        writer.write_batch([])
    assert list(records.read(tmp_path / "a")) == [b"a", b"bc"]


def test_an_empty_writer_makes_an_empty_file(tmp_path):
    TFRecordWriter(tmp_path / "a").close()
    assert (tmp_path / "a").read_bytes() == b""
    TFRecordWriter(tmp_path / "b", compression="GZIP").close()
    assert records.count(tmp_path / "b") == 0


def test_threads_write_every_record_whole_and_in_their_order(tmp_path):
    path, each = tmp_path / "a.tfrecord", 3000

    def produce(writer, number):
        for at in range(each):
            if at % 100 == 50:
                writer.write_batch({"from": np.full(20, number), "at": np.full((20, 1), -1)})
            writer.write({"from": number, "at": [at]})
            if at % 500 == 0:
                writer.write({"from": number, "at": [at] * 20_000})

    with TFRecordWriter(path) as writer:
        threads = [threading.Thread(target=produce, args=(writer, number)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert records.verify(path).findings == []
    found = {number: [] for number in range(4)}
    features = {"from": fl.FixedLenFeature([], "int64"), "at": fl.VarLenFeature("int64")}
    for row in fl.Dataset.from_tfrecords(path, features):
        if len(row["at"]) == 1 and row["at"][0] >= 0:
            found[int(row["from"])].append(int(row["at"][0]))
    assert found == {number: list(range(each)) for number in range(4)}
    assert records.count(path) == 4 * (each + each // 100 * 20 + each // 500)


def test_the_file_is_there_only_when_complete(tmp_path):
    path = tmp_path / "a.tfrecord"
    path.write_bytes(b"what was there before")
    with TFRecordWriter(path) as writer:
        writer.write(b"x" * 5_000_000)
        assert path.read_bytes() == b"what was there before"
        assert len(hidden(tmp_path)) == 1
    assert list(records.read(path)) == [b"x" * 5_000_000]
    assert os.listdir(tmp_path) == ["a.tfrecord"]


def test_an_exception_in_the_block_leaves_nothing(tmp_path):
    with suppress(ZeroDivisionError), TFRecordWriter(tmp_path / "a") as writer:
        writer.write(b"x" * 5_000_000)
        raise ZeroDivisionError
    assert os.listdir(tmp_path) == []


def test_abort_leaves_nothing_and_ends_the_writer(tmp_path):
    writer = TFRecordWriter(tmp_path / "a")
    writer.write(b"x")
    writer.abort()
    writer.close()
    assert os.listdir(tmp_path) == []
    for write in (lambda: writer.write(b"x"), lambda: writer.write_batch({"n": [1]})):
        with pytest.raises(WriteError, match="the writer is closed"):
            write()


def test_threads_may_close_and_abort_at_the_same_time(tmp_path):
    for number in range(50):
        writer = TFRecordWriter(tmp_path / f"{number}")
        writer.write(b"x")
        errors = []

        def end(writer=writer, errors=errors):
            try:
                writer.close()
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=end) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
    assert len(os.listdir(tmp_path)) == 50


def test_an_abort_frees_the_threads_that_wait(tmp_path):
    record = os.urandom(4_000_000)
    writer = TFRecordWriter(tmp_path / "a", compression="GZIP")
    ended = []

    def produce():
        with suppress(WriteError):
            while True:
                writer.write(record)
        ended.append(1)

    threads = [threading.Thread(target=produce, daemon=True) for _ in range(8)]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    writer.abort()
    assert comes_true(lambda: len(ended) == 8)
    assert os.listdir(tmp_path) == []


def test_an_interrupt_while_the_block_ends_leaves_nothing(tmp_path):
    class Interrupted(BaseException):
        pass

    def interrupt(number, frame):
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with suppress(Interrupted), TFRecordWriter(tmp_path / "a", compression="GZIP") as writer:
            for _ in range(3):
                writer.write(os.urandom(8_000_000))
            signal.setitimer(signal.ITIMER_REAL, 0.05)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    writer.close()
    assert os.listdir(tmp_path) == []


def test_a_writer_that_was_never_closed_is_told_of(tmp_path):
    writer = TFRecordWriter(tmp_path / "a")
    writer.write(b"x")
    with pytest.warns(RuntimeWarning, match="never closed, so there is no such file"):
        del writer
    assert os.listdir(tmp_path) == []


def test_a_writer_is_not_sent_to_other_processes(tmp_path):
    with (
        TFRecordWriter(tmp_path / "a") as writer,
        pytest.raises(UsageError, match=r"feedline\.ShardedWriter"),
    ):
        pickle.dumps(writer)


def test_a_forked_child_is_refused_and_harms_nothing(tmp_path):
    with TFRecordWriter(tmp_path / "a") as writer:
        for _ in range(3):
            writer.write(b"x" * 3_000_000)  # so that there is a thread
        child = os.fork()
        if child == 0:
            code = 1
            try:
                writer.write(b"from the child")
            except WriteError as error:
                code = 0 if "forked from" in str(error) else 2
            try:
                writer.abort()
                del writer
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        writer.write(b"after")
    assert [len(record) for record in records.read(tmp_path / "a")] == [3_000_000] * 3 + [5]


@pytest.mark.parametrize(
    ("make", "number"),
    [
        (lambda tmp: tmp / "missing" / "a", errno.ENOENT),
        (lambda tmp: tmp, errno.EISDIR),
        (lambda tmp: "/dev/null", errno.EINVAL),
        (lambda tmp: tmp / "file" / "a", errno.ENOTDIR),
        (lambda tmp: tmp / ("x" * 300), errno.ENAMETOOLONG),
    ],
)
def test_places_without_files_are_refused(tmp_path, make, number):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(WriteError, match="cannot write") as caught, TFRecordWriter(make(tmp_path)):
        pass
    assert caught.value.errno == number
    assert pickle.loads(pickle.dumps(caught.value)).errno == number
    assert hidden(tmp_path) == []


@pytest.mark.parametrize("name", ["a b", "*?[x]", "ü\n", "x" * 255, "-rf", "%s{}"])
def test_names_with_strange_characters(tmp_path, name):
    for _ in range(2):
        with TFRecordWriter(tmp_path / name) as writer:
            writer.write(b"x")
    assert os.listdir(tmp_path) == [name]


def test_a_link_is_written_through(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real" / "a")
    with TFRecordWriter(tmp_path / "link") as writer:
        writer.write(b"x")
    assert (tmp_path / "link").is_symlink()
    assert list(records.read(tmp_path / "real" / "a")) == [b"x"]


FULL = """
import errno, resource, signal, sys, threading
import feedline as fl
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (3_000_000, 3_000_000))
told = []

def produce(writer):
    try:
        while True:
            writer.write(b"x" * 1000)
    except fl.WriteError as error:
        told.append(error.errno)

try:
    with fl.TFRecordWriter(sys.argv[1], compression=sys.argv[2] or None) as writer:
        threads = [threading.Thread(target=produce, args=(writer,)) for _ in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
except fl.WriteError as error:
    told.append(error.errno)
print(told == 5 * [errno.EFBIG])
"""


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_a_full_disk_is_told_to_every_producer(tmp_path, compression):
    ended = run_python(FULL, str(tmp_path / "a"), compression, timeout=200)
    assert (ended.stdout, ended.stderr) == ("True\n", "")
    assert os.listdir(tmp_path) == []


KILLED = """
import sys
import feedline as fl
with fl.TFRecordWriter(sys.argv[1]) as writer:
    print("open", flush=True)
    for number in range(20_000):
        writer.write(bytes(1000))
"""


def test_a_killed_writer_leaves_no_file_and_the_next_one_tidies_up(tmp_path):
    path = tmp_path / "a.tfrecord"
    killed = 0
    for number in range(30):
        process = subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE)
        process.stdout.readline()
        time.sleep(0.002 * number)
        process.kill()
        killed += process.wait() == -signal.SIGKILL
        process.stdout.close()
        assert not path.exists() or records.count(path) == 20_000
        assert len(hidden(tmp_path)) <= 1
        path.unlink(missing_ok=True)
    assert killed > 10
    TFRecordWriter(path).close()
    assert os.listdir(tmp_path) == ["a.tfrecord"]


def test_a_second_writer_of_the_same_file_is_refused_until_the_first_is_done(tmp_path):
    first = TFRecordWriter(tmp_path / "a")
    first.write(b"first")
    with pytest.raises(WriteError, match="open in another writer of this process") as caught:
        TFRecordWriter(tmp_path / "a")
    assert caught.value.errno == errno.EBUSY
    TFRecordWriter(tmp_path / "b").close()
    first.close()
    assert list(records.read(tmp_path / "a")) == [b"first"]
    second = TFRecordWriter(tmp_path / "a")
    second.abort()
    TFRecordWriter(tmp_path / "a").close()


def test_a_file_has_one_writer_whatever_links_lead_to_it(tmp_path, monkeypatch):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "file").symlink_to(tmp_path / "link" / "a")
    monkeypatch.chdir(tmp_path)
    with TFRecordWriter(tmp_path / "real" / "a"):
        for path in ("link/a", "file", "real/../link/a"):
            with pytest.raises(WriteError, match="open in another writer"):
                TFRecordWriter(path)


def test_of_many_threads_that_open_one_file_at_once_one_gets_it(tmp_path):
    begin, opened = threading.Barrier(8), []

    def open_it():
        begin.wait(20)
        with suppress(WriteError):
            opened.append(TFRecordWriter(tmp_path / "a"))

    for _ in range(20):
        threads = [threading.Thread(target=open_it) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        (writer,) = opened
        opened.clear()
        writer.abort()
    assert os.listdir(tmp_path) == []


def test_a_writer_of_another_process_is_named(tmp_path):
    code = "import sys, feedline as fl; w = fl.TFRecordWriter(sys.argv[1]); print(flush=True); input()"
    other = start_python(code, str(tmp_path / "a"))
    other.stdout.readline()
    with pytest.raises(WriteError, match=rf"being written by process {other.pid} \(.*python"):
        TFRecordWriter(tmp_path / "a")
    other.kill()
    other.communicate(timeout=20)
    TFRecordWriter(tmp_path / "a").close()
    assert os.listdir(tmp_path) == ["a"]


ORPHANED = """
import os, sys, time
import feedline as fl
writer = fl.TFRecordWriter(sys.argv[1])
if os.fork() == 0:
    print(os.getpid(), flush=True)  # it has let go of the file by now
    time.sleep(1000)
input()
"""


def test_the_children_of_a_killed_writer_do_not_keep_its_file(tmp_path):
    parent = start_python(ORPHANED, str(tmp_path / "a"))
    child = int(parent.stdout.readline())
    try:
        parent.kill()
        parent.wait(20)
        TFRecordWriter(tmp_path / "a").close()
    finally:
        os.kill(child, signal.SIGKILL)
        parent.communicate(timeout=20)
    assert os.listdir(tmp_path) == ["a"]


def test_without_durable_nothing_waits_for_the_disk_and_the_file_still_appears_at_once(tmp_path, monkeypatch):
    asked = watched(monkeypatch)
    with TFRecordWriter(tmp_path / "a", durable=False) as writer:
        writer.write(b"one")
        assert not (tmp_path / "a").exists()
    assert asked == [("name", tmp_path / "a")]
    assert list(records.read(tmp_path / "a")) == [b"one"]
    with suppress(ZeroDivisionError), TFRecordWriter(tmp_path / "b", durable=False) as writer:
        writer.write(b"one")
        raise ZeroDivisionError
    assert os.listdir(tmp_path) == ["a"]


def test_the_time_to_open_a_writer_does_not_grow_with_the_directory(tmp_path, monkeypatch):
    def listed(*arguments):
        raise AssertionError("the directory was listed")

    for name in ("listdir", "scandir"):
        monkeypatch.setattr(os, name, listed)
    TFRecordWriter(tmp_path / "a").close()


def test_ctrl_c_ends_a_producer_that_waits_for_the_disk(tmp_path):
    fifo = tmp_path / "slow"
    os.mkfifo(fifo)
    code = f"""
import os, sys, feedline as fl
from feedline import _native
fd = os.open({str(fifo)!r}, os.O_RDWR)  # nobody reads
sink = _native.RecordSink(fd, "none")
print("begun", flush=True)
try:
    while True:
        sink.add(bytes(100_000))
except KeyboardInterrupt:
    print("interrupted", flush=True)
    os._exit(0)
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "begun\n"
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "interrupted\n"
    assert comes_true(lambda: process.poll() == 0)
    process.stdout.close()


def test_memory_stays_bounded_when_producers_are_faster_than_the_disk(tmp_path):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    block = bytes(1_000_000)
    with TFRecordWriter(tmp_path / "a", compression="GZIP") as writer:
        for _ in range(300):
            writer.write(block)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # KB


@pytest.mark.parametrize("compression", ["auto", "LZ4"])
def test_a_compression_that_cannot_be_written_is_refused(tmp_path, compression):
    with pytest.raises(UsageError, match="compression"):
        TFRecordWriter(tmp_path / "a", compression=compression)
    assert os.listdir(tmp_path) == []


def test_an_example_that_does_not_fit_is_refused_and_the_others_stay(tmp_path):
    with TFRecordWriter(tmp_path / "a") as writer:
        writer.write({"n": 1})
        with pytest.raises(SchemaError, match="'n': it is float32 of shape"):
            writer.write({"n": [1.5, 2.5]})
        writer.write({"n": 2})
    assert records.count(tmp_path / "a") == 2

"""A thread that wrote and died keeps its writer from publishing. Everyone's excepthook works as before."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import suppress

import pytest

from feedline import AppendWriter, ShardedWriter, TFRecordWriter, UsageError, WriteError, records
from tests.processes import run_python

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")


def run(function, *arguments, name=None):
    thread = threading.Thread(target=function, args=arguments, name=name)
    thread.start()
    thread.join(20)


def write_and_die(writer, records=1):
    for _ in range(records):
        writer.write(b"x")
    raise ValueError("no such image")


def visible(directory):
    return [name for name in os.listdir(directory) if not name.startswith(".")]


def refusal(writer):
    """What close() says."""
    with pytest.raises(WriteError) as caught:
        writer.close()
    return str(caught.value)


@pytest.mark.parametrize("open_writer", [TFRecordWriter, ShardedWriter])
def test_nothing_is_published_when_a_thread_that_wrote_died(tmp_path, open_writer):
    writer = open_writer(tmp_path / "a")
    writer.write(b"before")
    run(write_and_die, writer, name="camera")
    writer.write(b"after")
    told = refusal(writer)
    assert "thread 'camera' failed with ValueError: no such image" in told
    assert "nothing was" in told.lower()
    assert visible(tmp_path / "a" if (tmp_path / "a").is_dir() else tmp_path) == []


def test_an_append_writer_tells_of_a_thread_that_died_and_keeps_its_records(tmp_path):
    writer = AppendWriter(tmp_path / "a")
    run(write_and_die, writer, 2, name="camera")
    told = refusal(writer)
    assert "thread 'camera' failed with ValueError: no such image" in told
    assert "stay in the file" in told
    assert records.count(tmp_path / "a") == 2
    writer.close()


def test_an_exception_in_the_block_of_an_append_writer_is_not_hidden_by_that_of_a_thread(tmp_path):
    with suppress(ZeroDivisionError), AppendWriter(tmp_path / "a") as writer:
        run(write_and_die, writer)
        raise ZeroDivisionError
    assert records.count(tmp_path / "a") == 1


@pytest.mark.parametrize("open_writer", [TFRecordWriter, ShardedWriter, AppendWriter])
@pytest.mark.parametrize("write", ["write", "write_batch"])
def test_a_thread_that_dies_of_its_first_example_counts(tmp_path, open_writer, write):
    with pytest.raises(WriteError, match="failed with"), open_writer(tmp_path / "a") as writer:
        run(getattr(writer, write), {"x": object()})


@pytest.mark.parametrize("open_writer", [TFRecordWriter, ShardedWriter, AppendWriter])
def test_a_thread_that_wrote_nothing_or_ended_on_purpose_does_not_count(tmp_path, open_writer):
    def leave(writer):
        writer.write(b"x")
        sys.exit(3)

    def die():
        raise ValueError("it has nothing to do with the writer")

    with open_writer(tmp_path / "a") as writer:
        for _ in range(20):  # later threads have the idents of earlier ones
            run(writer.write, b"x")
            run(die)
        run(leave, writer)
        with open_writer(tmp_path / "b") as other:
            run(other.write, b"x")
        with pytest.raises(WriteError), open_writer(tmp_path / "c") as other:
            run(write_and_die, other)
    assert records.count(tmp_path / "a") == 21


def test_all_threads_that_failed_are_counted(tmp_path):
    def produce(number):
        writer.write(b"x")
        raise KeyError(number)

    writer = TFRecordWriter(tmp_path / "a")
    for number in range(3):
        run(produce, number)
    assert "failed with KeyError: 0 (and 2 more)" in refusal(writer)


def test_the_hook_that_was_there_is_called_and_put_back(tmp_path, monkeypatch):
    called = []
    monkeypatch.setattr(threading, "excepthook", called.append)
    for _ in range(3):
        writer = TFRecordWriter(tmp_path / "a")
        with TFRecordWriter(tmp_path / "b") as other:
            other.write(b"x")
        run(write_and_die, writer)
        refusal(writer)
        assert threading.excepthook == called.append
    assert [args.exc_type for args in called] == [ValueError] * 3


def test_a_hook_that_is_set_later_stays(tmp_path, monkeypatch):
    first, second = [], []
    monkeypatch.setattr(threading, "excepthook", first.append)
    writer = TFRecordWriter(tmp_path / "a")
    before = threading.excepthook

    def later(args):
        second.append(args)
        before(args)

    threading.excepthook = later
    other = TFRecordWriter(tmp_path / "b")  # in front of that one again
    for one in (writer, other):
        run(write_and_die, one)
        with pytest.raises(WriteError, match=r"no such image\. Nothing"):
            one.close()
    assert threading.excepthook is later
    assert (len(first), len(second)) == (2, 2)
    threading.excepthook = first.append
    with pytest.raises(WriteError), TFRecordWriter(tmp_path / "a") as writer:
        run(write_and_die, writer)
    assert threading.excepthook == first.append


def test_many_threads_may_open_and_close_writers(tmp_path, monkeypatch):
    monkeypatch.setattr(threading, "excepthook", lambda args: None)
    mine, missed = threading.excepthook, []

    def produce(number):
        for turn in range(30):
            writer = TFRecordWriter(tmp_path / f"{number}", durable=False)
            if turn % 3 == 0:
                run(write_and_die, writer)
            try:
                writer.close()
            except WriteError:
                continue
            missed.extend([turn] if turn % 3 == 0 else [])

    threads = [threading.Thread(target=produce, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert missed == []
    assert threading.excepthook is mine


def test_python_prints_the_traceback_as_ever(tmp_path):
    code = """
import sys, threading, feedline as fl
def produce():
    writer.write(b"x")
    raise ValueError("no such image")
with fl.TFRecordWriter(sys.argv[1]) as writer:
    thread = threading.Thread(target=produce, name="camera")
    thread.start()
    thread.join()
"""
    ended = run_python(code, str(tmp_path / "a"))
    assert ended.returncode == 1
    assert "Exception in thread camera:" in ended.stderr
    assert "feedline.errors.WriteError: [Errno 125]" in ended.stderr
    assert "thread 'camera' failed with ValueError: no such image. Nothing was published." in ended.stderr
    assert os.listdir(tmp_path) == []


IN_PROCESSES = """
import multiprocessing, sys, threading
import feedline as fl

def produce(writer):
    writer.write(b"x")
    raise ValueError("no such image")

def task(writer, how):
    if how == "with":
        with writer:
            start(writer)
    else:
        start(writer if how == "without" else writer.producer("a"))

def start(writer):
    writer.write(b"y")
    thread = threading.Thread(target=produce, args=(writer,), name="camera")
    thread.start()
    thread.join()

if __name__ == "__main__":
    directory, start_method, how = sys.argv[1:]
    with fl.ShardedWriter(directory) as writer:
        writer.write(b"z")
        child = multiprocessing.get_context(start_method).Process(target=task, args=(writer, how))
        child.start()
        child.join()
        print(child.exitcode)
"""


@pytest.mark.parametrize("start", ["fork", "spawn"])
@pytest.mark.parametrize("how", ["with", "without", "named"])
def test_a_thread_that_died_in_another_process_keeps_the_set_from_being_committed(tmp_path, start, how):
    script = tmp_path / "program.py"
    script.write_text(IN_PROCESSES)
    arguments = [sys.executable, script, tmp_path / "set", start, how]
    ended = subprocess.run(arguments, capture_output=True, text=True, timeout=100)
    assert ended.stdout == "0\n"
    assert "nothing was committed" in ended.stderr
    assert "thread 'camera' failed with ValueError: no such image" in ended.stderr
    assert visible(tmp_path / "set") == []


FULL = """
import resource, sys, threading
import feedline as fl

def produce():
    writer.write(b"x")
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limit))
    writer.write(b"y")

writer = fl.ShardedWriter(sys.argv[1])
limit = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
thread = threading.Thread(target=produce, name="camera")
thread.start()
thread.join()
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
writer.close()
"""


def test_a_thread_that_died_of_a_full_disk_counts_though_there_was_no_room_to_say_so(tmp_path):
    ended = run_python(FULL, str(tmp_path))
    assert "Exception in thread camera" in ended.stderr
    assert "nothing was committed" in ended.stderr
    assert "thread 'camera' failed with feedline.errors.WriteError: [Errno 27]" in ended.stderr
    assert visible(tmp_path) == []


def test_a_named_producer_whose_thread_died_may_begin_again(tmp_path):
    def produce(writer, end):
        with writer.producer("a") as producer:
            for number in range(producer.count, end):
                producer.write(b"%d" % number)
            assert end == 5, "it ended early"

    with ShardedWriter(tmp_path) as writer:
        run(produce, writer, 2)
        run(produce, writer, 5)
    assert list(records.read(tmp_path)) == [b"%d" % number for number in range(5)]


def test_a_thread_whose_producer_another_thread_has_closed_counts(tmp_path):
    writer = ShardedWriter(tmp_path)
    producer = writer.producer("a")
    producer.write(b"x")
    producer.close()
    run(producer.write, b"y", name="late")
    assert "thread 'late' failed with feedline.errors.WriteError" in refusal(writer)


def test_a_run_whose_thread_died_can_be_resumed(tmp_path):
    with pytest.raises(WriteError, match="resume=True"), ShardedWriter(tmp_path) as writer:
        run(write_and_die, writer)
    with ShardedWriter(tmp_path, resume=True) as writer:
        assert writer.count == 1
        writer.write(b"y")
    assert list(records.read(tmp_path)) == [b"x", b"y"]


@pytest.mark.parametrize("open_writer", [TFRecordWriter, AppendWriter])
def test_a_producer_whose_block_raised_is_told_at_the_end(tmp_path, open_writer):
    writer = open_writer(tmp_path / "a")
    with writer.producer("a") as out:
        out.write({"n": 1})
        out.write_batch({"n": [2, 3]})
    with suppress(KeyError), writer.producer("b") as out:
        out.write({"n": 4})
        raise KeyError(7)
    with writer.producer("b") as out:  # again, though what it wrote at first is in the file
        out.write({"n": 4})
    assert "producer 'b' failed with KeyError: 7." in refusal(writer)
    assert (tmp_path / "a").exists() == (open_writer is AppendWriter)


def test_a_failure_of_a_producer_is_told_once_though_its_thread_dies_of_it(tmp_path):
    def produce():
        with writer.producer("b") as out:
            write_and_die(out)

    writer = TFRecordWriter(tmp_path / "a")
    run(produce)
    assert "producer 'b' failed with ValueError: no such image. Nothing" in refusal(writer)


@pytest.mark.parametrize("open_writer", [TFRecordWriter, AppendWriter])
def test_a_producer_whose_block_has_not_ended_counts(tmp_path, open_writer):
    writer = open_writer(tmp_path / "a")
    with writer.producer("a"), pytest.raises(WriteError, match="producer 'a' is still in its `with` block"):
        writer.close()
    writer.close()


@pytest.mark.parametrize("open_writer", [TFRecordWriter, ShardedWriter, AppendWriter])
@pytest.mark.parametrize("name", ["", None, 7])
def test_a_producer_needs_a_name(tmp_path, open_writer, name):
    with open_writer(tmp_path / "a") as writer, pytest.raises(UsageError, match="a text that is not empty"):
        writer.producer(name)

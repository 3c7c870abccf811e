"""AppendWriter: one growing file, many threads and processes, whole records or nothing."""

from __future__ import annotations

import errno
import fcntl
import gzip
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import zlib

import numpy as np
import pytest

import feedline as fl
from feedline import AppendWriter, CorruptRecord, Dataset, SchemaError, UsageError, WriteError, records
from feedline.records.beside import index_path
from feedline.testing import assert_same
from tests.processes import comes_true, interrupt_soon, run_python, start_python
from tests.records.corrupt import check_located, flip, frame, frames, header


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.tfrecord"


def test_tensorflow_reads_what_was_appended(path):
    tf = pytest.importorskip("tensorflow")
    wanted = [bytes([n % 256]) * n for n in (*range(50), 100_000, 3_000_000, 0)]
    for half in (wanted[:20], wanted[20:]):
        with AppendWriter(path) as writer:
            for record in half:
                writer.write(record)
    assert list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator()) == wanted
    assert list(records.read(path)) == wanted


def test_examples_are_read_back(path):
    with AppendWriter(path) as writer:
        writer.write({"x": np.arange(4.0).reshape(2, 2), "label": 7})
        writer.write_batch({"x": np.ones((3, 2, 2)), "label": [1, 2, 3]})
        writer.write_batch({"x": np.ones((0, 2, 2)), "label": []})
    features = {"x": fl.RawFeature([2, 2], "float64"), "label": fl.FixedLenFeature([], "int64")}
    assert records.infer_features(path) == features
    rows = list(fl.Dataset.from_tfrecords(path, features))
    assert [int(row["label"]) for row in rows] == [7, 1, 2, 3]
    np.testing.assert_array_equal(rows[0]["x"], [[0, 1], [2, 3]])


def test_a_record_is_there_when_write_returns(path):
    writer = AppendWriter(path)
    assert path.read_bytes() == b""
    for number in range(3):
        writer.write(b"%d" % number)
        assert path.read_bytes() == frames(b"%d" % n for n in range(number + 1))
    writer.flush()
    writer.close()
    writer.close()


def test_an_example_that_does_not_fit_is_refused_and_the_file_stays_as_it_was(path):
    with AppendWriter(path) as writer:
        writer.write({"x": 1})
        before = path.read_bytes()
        with pytest.raises(SchemaError, match="'x'"):
            writer.write({"x": "one"})
        with pytest.raises(SchemaError, match="'x'"):
            writer.write_batch({"x": ["one", "two"]})
        with pytest.raises(UsageError, match="int"):
            writer.write(3)
        assert path.read_bytes() == before


def test_a_closed_writer_refuses(path):
    writer = AppendWriter(path)
    writer.close()
    for refused in (lambda: writer.write(b"x"), lambda: writer.write_batch({"x": [1]}), writer.flush):
        with pytest.raises(WriteError, match="closed") as caught:
            refused()
        assert caught.value.errno == errno.EBADF


def test_threads_of_several_writers_append_every_record_once_and_in_their_order(path):
    writers = [AppendWriter(path), AppendWriter(path)]

    def produce(number):
        writer = writers[number % 2]
        for at in range(500):
            if at % 50 == 0:
                writer.write_batch({"from": np.full(20, number), "at": np.full(20, -1)})
            writer.write({"from": number, "at": at})

    threads = [threading.Thread(target=produce, args=[number]) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for writer in writers:
        writer.close()
    rows = fl.Dataset.from_tfrecords(path, dict.fromkeys(("from", "at"), fl.FixedLenFeature([], "int64")))
    found = {number: [] for number in range(6)}
    for row in rows:
        found[int(row["from"])].append(int(row["at"]))
    for order in found.values():
        assert [at for at in order if at >= 0] == list(range(500))
        assert order.count(-1) == 200


APPEND = """
import sys, threading
import feedline as fl
path, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
with fl.AppendWriter(path) as writer:
    def produce(thread):
        for n in range(count):
            writer.write(b"%s %d %d " % (name.encode(), thread, n) + b"." * (n * 37 % 5000))
    threads = [threading.Thread(target=produce, args=[t]) for t in range(2)]
    [t.start() for t in threads]
    [t.join() for t in threads]
"""


def test_independent_processes_append_every_record_once_and_tensorflow_reads_them(path):
    tf = pytest.importorskip("tensorflow")
    running = [start_python(APPEND, str(path), name, "400") for name in "abcd"]
    for process in running:
        _, said = process.communicate(timeout=200)
        assert process.returncode == 0, said
    found = [record.split(b" ")[:3] for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator()]
    for name in b"a", b"b", b"c", b"d":
        for thread in b"0", b"1":
            mine = [int(n) for who, which, n in found if (who, which) == (name, thread)]
            assert mine == list(range(400))
    assert len(found) == 4 * 2 * 400
    assert records.verify(path).ok


def test_a_forked_child_appends_with_the_writer_of_its_parent(path):
    writer = AppendWriter(path)
    writer.write({"n": 0})

    def append(start):
        for n in range(start, start + 200):
            writer.write({"n": n})

    children = [multiprocessing.get_context("fork").Process(target=append, args=[at]) for at in (1000, 2000)]
    for child in children:
        child.start()
    append(3000)
    for child in children:
        child.join(200)
        assert child.exitcode == 0
    rows = fl.Dataset.from_tfrecords(path, {"n": fl.FixedLenFeature([], "int64")})
    wanted = [0, *range(1000, 1200), *range(2000, 2200), *range(3000, 3200)]
    assert sorted(int(row["n"]) for row in rows) == wanted


def ended_as(child):
    pid, status = os.waitpid(child, os.WNOHANG)
    return [status] if pid else []


def test_a_fork_while_threads_write_leaves_the_child_able_to_write(path):
    writer = AppendWriter(path)
    ended = threading.Event()

    def produce():
        while not ended.is_set():
            writer.write(b"parent" * 1000)

    threads = [threading.Thread(target=produce) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(20):
            child = os.fork()
            if child == 0:
                writer.write(b"child")
                os._exit(0)
            ends = []
            if not comes_true(lambda child=child, ends=ends: ends.extend(ended_as(child)) or ends):
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
            assert ends == [0]
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert records.verify(path).ok
    assert sum(record == b"child" for record in records.read(path)) == 20


def test_a_child_does_not_keep_the_lock_of_a_parent_that_was_killed_with_it(path):
    parent = start_python(
        """
import fcntl, os, sys, time
import feedline as fl
writer = fl.AppendWriter(sys.argv[1])
links = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
mine, = [int(link[14:]) for link in links if os.path.realpath(link) == sys.argv[1]]
fcntl.flock(mine, fcntl.LOCK_EX)  # as if it were writing
child = os.fork()
if child == 0:
    time.sleep(1000)
print(child, flush=True)
time.sleep(1000)
""",
        os.path.realpath(path),
    )
    with parent:
        child = int(parent.stdout.readline())
        parent.kill()
        try:
            code = "import sys, feedline; feedline.AppendWriter(sys.argv[1]).write(b'x')"
            done = run_python(code, str(path))
        finally:
            os.kill(child, signal.SIGKILL)
    assert done.returncode == 0, done.stderr
    assert path.read_bytes() == frame(b"x")


def test_a_pickled_writer_appends_to_the_same_file_from_elsewhere(path, monkeypatch):
    monkeypatch.chdir(path.parent)
    with AppendWriter(path.name) as writer:
        writer.write({"n": 1})
        stored = pickle.dumps(writer)
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                "import pickle, sys, feedline\n"
                "writer = pickle.load(sys.stdin.buffer)\n"
                "writer.write({'n': 2})\n"
                "try: writer.write({'n': 'two'})\n"
                "except feedline.SchemaError: print('refused')\n",
            ],
            input=stored,
            capture_output=True,
            timeout=200,
            cwd="/",
        )
        assert done.stdout == b"refused\n", done.stderr
    rows = fl.Dataset.from_tfrecords(path, {"n": fl.FixedLenFeature([], "int64")})
    assert [int(row["n"]) for row in rows] == [1, 2]


@pytest.mark.parametrize("whole", [[], [b"one", b"", b"three" * 100]])
def test_a_torn_tail_of_any_length_is_cut_off_on_open(path, whole):
    last = frame(b"the last one")
    for size in range(len(last)):
        path.write_bytes(frames(whole) + last[:size])
        AppendWriter(path).close()
        assert path.read_bytes() == frames(whole)


def test_a_torn_tail_is_cut_off_by_a_writer_that_was_open_already(path):
    with AppendWriter(path) as writer:
        writer.write(b"one")
        for size in (1, 11, 12, 15, 4096):
            with path.open("ab") as file:
                file.write(frame(b"x" * 10_000)[:size])
            writer.write(b"more")
    assert path.read_bytes() == frames([b"one"] + [b"more"] * 5)


@pytest.mark.parametrize(
    "damaged",
    [
        frame(b"one") + flip(frame(b"two"), 3) + frame(b"three"),
        frame(b"one") + frame(b"torn" * 100)[:50] + frame(b"three"),
        frame(b"one") + b"junk" + frame(b"three") + frame(b"four")[:-1],
    ],
    ids=["header", "torn", "junk"],
)
def test_damage_before_sound_records_is_refused_with_its_place_and_nothing_is_cut(path, damaged):
    path.write_bytes(damaged)
    with pytest.raises(CorruptRecord) as caught:
        AppendWriter(path)
    assert (caught.value.record, caught.value.offset, caught.value.path) == (1, 19, str(path))
    assert f"feedline verify {path}" in str(caught.value)
    assert f"feedline repair {path} OUT" in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert path.read_bytes() == damaged


def test_damage_that_appears_while_the_writer_is_open_is_refused_at_the_next_write(path):
    writer = AppendWriter(path)
    writer.write(b"one")
    with path.open("ab") as file:
        file.write(b"junk" + frame(b"two"))
    before = path.read_bytes()
    with pytest.raises(CorruptRecord, match="record 1 at byte 19"):
        writer.write(b"three")
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "content", [b"name,age\nTom,3\n", b"\0" * 1000, header(5)[::-1], b"\x89PNG\r\n\x1a\n" * 9]
)
def test_a_file_that_is_no_tfrecord_file_is_refused_and_kept(path, content):
    path.write_bytes(content)
    with pytest.raises(CorruptRecord, match="does not begin with a record"):
        AppendWriter(path)
    assert path.read_bytes() == content


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress])
def test_a_compressed_file_is_refused_and_kept(path, pack):
    content = pack(frames([b"one", b"two"]))
    path.write_bytes(content)
    with pytest.raises(UsageError, match="it is compressed"):
        AppendWriter(path)
    assert path.read_bytes() == content


def test_what_follows_a_rename_goes_to_a_new_file(path, tmp_path):
    with AppendWriter(path) as writer, AppendWriter(path) as other:
        writer.write(b"one")
        path.rename(tmp_path / "old")
        writer.write(b"two")
        other.write(b"three")
        path.unlink()
        other.write(b"four")
        path.write_bytes(frame(b"another's"))
        writer.write(b"five")
    assert (tmp_path / "old").read_bytes() == frame(b"one")
    assert list(records.read(path)) == [b"another's", b"five"]


def test_a_file_that_was_emptied_begins_anew(path):
    with AppendWriter(path) as writer:
        writer.write(b"one" * 100)
        os.truncate(path, 0)
        writer.write(b"two")
        assert path.read_bytes() == frame(b"two")
        path.write_bytes(frames([b"x" * 3, b"y" * 400]))  # no record ends where one did
        writer.write(b"three")
    assert list(records.read(path)) == [b"x" * 3, b"y" * 400, b"three"]


def test_an_index_spares_the_walk_over_what_it_holds(path):
    path.write_bytes(frames([b"x" * 100] * 1000))
    records.index(path)
    with path.open("r+b") as file:  # damage that a walk would run into
        file.seek(116 * 500)
        file.write(b"damage")
    with AppendWriter(path) as writer:
        writer.write(b"more")
    with AppendWriter(path) as writer:
        writer.write(b"and more")
    assert path.stat().st_size == 116 * 1000 + 20 + 24


def test_an_index_of_another_file_is_not_believed(path):
    path.write_bytes(frames([b"x" * 100] * 1000))
    records.index(path)
    content = frames([b"y" * 77] * 2000)
    path.write_bytes(content)
    with AppendWriter(path) as writer:
        writer.write(b"more")
    assert path.read_bytes() == content + frame(b"more")


def refused(path, code):
    with pytest.raises(WriteError) as caught:
        AppendWriter(path)
    assert caught.value.errno == code
    assert str(path) in str(caught.value)
    assert type(pickle.loads(pickle.dumps(caught.value))) is WriteError


def test_places_where_there_can_be_no_file_are_refused(tmp_path):
    refused(tmp_path / "missing" / "a", errno.ENOENT)
    refused(tmp_path, errno.EISDIR)
    (tmp_path / "file").write_bytes(b"")
    refused(tmp_path / "file" / "a", errno.ENOTDIR)
    refused(tmp_path / ("x" * 300), errno.ENAMETOOLONG)
    os.mkfifo(tmp_path / "pipe")
    refused(tmp_path / "pipe", errno.EINVAL)
    with pytest.raises(UsageError, match="zero byte"):
        AppendWriter("a\0b")


# As another user: for root every file is writable.
def test_a_read_only_file_or_directory_is_refused(tmp_path):
    file = tmp_path / "a.tfrecord"
    file.write_bytes(frame(b"one"))
    file.chmod(0o444)
    tmp_path.chmod(0o555)
    code = """
import os, sys
import feedline as fl
if os.geteuid() == 0: os.setgroups([]); os.setgid(65534); os.setuid(65534)
for name in sys.argv[1:]:
    try: fl.AppendWriter(name)
    except fl.WriteError as error: print(error.errno, name in str(error))
"""
    directory = tmp_path
    while directory.stat().st_mode & 0o001 == 0 and os.geteuid() == 0:  # pytest's are closed to others
        directory.chmod(directory.stat().st_mode | 0o055)
        directory = directory.parent
    done = run_python(code, str(file), str(tmp_path / "new"))
    assert done.stdout.splitlines() == [f"{errno.EACCES} True"] * 2, done.stderr
    assert file.read_bytes() == frame(b"one")


@pytest.mark.parametrize("name", ["two words", "ü€", "a\nb", "*?[x]", "-rf", b"\xff\xfe", " "])
def test_strange_names_are_names(tmp_path, name):
    path = os.path.join(tmp_path, os.fsdecode(name))
    with AppendWriter(path) as writer:
        writer.write(b"one")
        pickle.loads(pickle.dumps(writer)).write(b"two")
    assert list(records.read(path)) == [b"one", b"two"]
    with open(path, "ab") as file:
        file.write(b"junk" + frame(b"three"))
    with pytest.raises(CorruptRecord):
        AppendWriter(path)


def test_a_new_file_has_the_mode_that_umask_says(path):
    before = os.umask(0o027)
    try:
        AppendWriter(path).close()
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_link_is_written_through(path, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(path)
    with AppendWriter(link) as writer:
        writer.write(b"one")
    assert link.is_symlink()
    assert path.read_bytes() == frame(b"one")


LIMITED = """
import resource, sys
import feedline as fl
path, limit = sys.argv[1], int(sys.argv[2])
writer = fl.AppendWriter(path)
writer.write(b"one")
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
for write, what in ((writer.write, b"x" * limit), (writer.write_batch, {"x": [1] * limit})):
    try:
        write(what)
    except fl.WriteError as error:
        print(error.errno, path in str(error))
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
writer.write(b"two")
"""


@pytest.mark.parametrize("limit", [20, 25, 4096, 100_000])
def test_a_full_disk_is_a_write_error_and_the_file_stays_sound(path, limit):
    done = run_python(LIMITED, str(path), str(limit))
    assert done.stdout.splitlines() == [f"{errno.EFBIG} True"] * 2, done.stderr
    assert path.read_bytes() == frames([b"one", b"two"])


def test_no_space_left_is_a_write_error_in_every_writer(tmp_path):
    place = tmp_path / "small"
    place.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", place], capture_output=True
    ).returncode:
        pytest.skip("no right to mount a small file system")
    try:
        with AppendWriter(place / "a") as one, AppendWriter(place / "a") as two:
            one.write(b"x" * 50_000)
            for writer in (one, two):
                with pytest.raises(WriteError) as caught:
                    writer.write(b"y" * 50_000)
                assert caught.value.errno == errno.ENOSPC
            two.write(b"z")
        assert list(records.read(place / "a")) == [b"x" * 50_000, b"z"]
    finally:
        subprocess.run(["umount", place], check=True)


def test_a_wait_for_the_lock_ends_with_ctrl_c(path):
    with AppendWriter(path) as writer, path.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(KeyboardInterrupt), interrupt_soon():
            writer.write(b"x")
        # And that for a thread which waits.
        thread = threading.Thread(target=writer.write, args=[b"thread"])
        thread.start()
        with pytest.raises(KeyboardInterrupt), interrupt_soon():
            writer.write(b"y")
        fcntl.flock(other, fcntl.LOCK_UN)
        thread.join(200)
        writer.write(b"z")
    assert list(records.read(path)) == [b"thread", b"z"]


def test_a_torn_tail_at_rest_is_damage_to_a_reader(path):
    path.write_bytes(frame(b"one") + frame(b"two")[:-1])
    found = records.read(path)
    assert next(found) == b"one"
    with pytest.raises(CorruptRecord) as caught:
        next(found)
    check_located(caught.value, path, 1, 19)


@pytest.mark.parametrize("how", ["read", "blocks", "skip", "verify", "count"])
def test_a_record_that_is_being_appended_is_not_yet_part_of_the_file(path, how):
    path.write_bytes(frame(b"one") + frame(b"two")[:-1])
    with path.open("rb") as writer:
        fcntl.flock(writer, fcntl.LOCK_EX)
        if how == "verify":
            found = records.verify(path)
            assert (found.ok, found.records) == (True, 1)
        elif how == "count":
            assert records.count(path) == 1
        elif how == "blocks":
            assert list(fl.Dataset.from_tfrecords(path)) == [b"one"]
        else:
            assert list(records.read(path, on_corrupt="skip" if how == "skip" else "raise")) == [b"one"]


def test_readers_see_only_whole_records_while_the_file_grows(path):
    running = [start_python(APPEND, str(path), name, "3000") for name in "ab"]
    seen, readings = 0, 0
    try:
        while any(process.poll() is None for process in running):
            if not path.exists():
                continue
            found = sum(1 for _ in records.read(path))
            assert found >= seen
            seen = found
            result = records.verify(path)
            assert result.findings == []
            assert result.records >= seen
            readings += 1
    finally:
        for process in running:
            _, said = process.communicate(timeout=200)
            assert process.returncode == 0, said
    assert readings > 3
    assert records.count(path) == 2 * 2 * 3000


def both_sessions(path, first, second):
    with AppendWriter(path) as writer:
        writer.write(first)
    with AppendWriter(path) as writer:
        writer.write(second)
    return list(Dataset.from_tfrecords(path, "auto"))


def test_a_later_session_converts_to_what_the_file_holds(path):
    rows = both_sessions(path, {"loss": 1.5, "n": 1}, {"loss": np.float64(2.5), "n": np.uint8(2)})
    assert_same(rows, [{"loss": np.float32(x), "n": np.int64(n)} for x, n in ((1.5, 1), (2.5, 2))])


def test_a_later_session_may_write_a_list_where_the_file_holds_single_values(path):
    rows = both_sessions(path, {"x": 1, "name": "a"}, {"x": [1, 2], "name": ["b", "c"]})
    assert [row["x"].tolist() for row in rows] == [[1], [1, 2]]
    assert [row["name"].tolist() for row in rows] == [[b"a"], [b"b", b"c"]]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"x": 1.5}, {"x": np.float64(0.1)}),
        ({"x": [1.0, 2.0, 3.0, 4.0]}, {"x": np.ones((2, 2), np.float32)}),
        ({"x": [1, 2]}, {"x": np.ones((1, 2), np.uint8)}),
        ({"x": "a"}, {"x": 1}),
        ({"x": "a"}, {"x": np.ones((1, 2), np.uint8)}),
        ({"x": 1}, {"x": "a"}),
        ({"x": 1}, {"y": 1}),
        ({"x": 1, "y": 1}, {"x": 1}),
    ],
)
@pytest.mark.parametrize("batch", [False, True])
def test_a_later_session_refuses_what_no_feature_reads_with_what_is_there(path, first, second, batch):
    with AppendWriter(path) as writer:
        writer.write(first)
    before = path.read_bytes()
    columns = {key: [value] for key, value in second.items()}
    with AppendWriter(path) as writer, pytest.raises(SchemaError, match=r"feature '[xy]'"):
        writer.write_batch(columns) if batch else writer.write(second)
    assert path.read_bytes() == before


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_a_session_goes_on_after_one_that_died_before_it_told_its_dtypes(path, shape):
    array = np.ones(shape, np.float64)
    with AppendWriter(path) as writer:
        writer.write({"x": array, "n": 1})
    os.unlink(index_path(str(path)))
    with AppendWriter(path) as writer:
        writer.write({"x": array, "n": 2})
    assert_same(Dataset.from_tfrecords(path, "auto"), [{"x": array, "n": np.int64(n)} for n in (1, 2)])


def test_writers_that_open_an_empty_file_together_agree_on_its_features(path):
    with AppendWriter(path) as one, AppendWriter(path) as other:
        one.write({"x": np.ones((1, 2), np.uint8)})
        with pytest.raises(SchemaError, match="'x': it is float64"):
            other.write({"x": np.ones((1, 2))})
        other.write({"x": np.ones((3, 2), np.uint8)})
    assert [row["x"].shape for row in Dataset.from_tfrecords(path, "auto")] == [(1, 2), (3, 2)]


def test_only_dtypes_and_shapes_take_a_second_lock_and_on_a_file_open_for_writing(path):
    script = """
import sys, numpy as np, feedline as fl
seen = []
def hook(event, given):
    if event == "fcntl.flock" or (event == "open" and str(given[0]) == sys.argv[1]):
        seen.append(event if event != "open" else given[1])
writer = fl.AppendWriter(sys.argv[1])
sys.addaudithook(hook)
writer.write({"x": 1})
writer.write({"x": 2})
print("fcntl.flock" in seen)
writer = fl.AppendWriter(sys.argv[2])
sys.argv[1] = sys.argv[2]
seen.clear()
writer.write({"x": np.ones((1, 2))})
print(seen[seen.index("fcntl.flock") - 1])
"""
    command = [sys.executable, "-c", script, path, path.with_name("b")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.stdout.split() == ["False", "r+"], done.stderr

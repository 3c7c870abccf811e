"""merge: one file of many, checked, complete or not there."""

from __future__ import annotations

import errno
import fcntl
import gzip
import os
import pickle
import signal
import subprocess
import threading
import zlib

import pytest

from feedline import AppendWriter, CorruptRecord, TFRecordWriter, UsageError, WriteError, records
from feedline.records import merge
from tests.processes import run_python, start_python
from tests.records.corrupt import check_located, flip, frame


def test_plain_files_are_joined_in_the_order_given(write, tmp_path):
    paths = [write(name, [name.encode() * n for n in range(20)]) for name in "cab"]
    done = merge([*paths, paths[0]], tmp_path / "out")
    assert done == records.Merge(str(tmp_path / "out"), 4, 80, 4 * 190)
    assert (tmp_path / "out").read_bytes() == b"".join(path.read_bytes() for path in [*paths, paths[0]])


def test_tensorflow_reads_merged_gzip_files_of_several_members(write, tmp_path):
    tf = pytest.importorskip("tensorflow")
    wanted = [b"%d" % n * n for n in range(500)]
    paths = [write(f"{at}", wanted[at : at + 100], gzip.compress) for at in range(0, 500, 100)]
    assert merge(paths, tmp_path / "out").records == 500
    merge([tmp_path / "out", write("more", [b"more"], gzip.compress)], tmp_path / "again")
    for name, records_in_it in (("out", wanted), ("again", [*wanted, b"more"])):
        found = tf.data.TFRecordDataset(str(tmp_path / name), "GZIP").as_numpy_iterator()
        assert list(found) == records_in_it
        assert list(records.read(tmp_path / name)) == records_in_it


@pytest.mark.parametrize("compression", [None, "GZIP"])
def test_files_of_a_writer_are_joined_and_tensorflow_reads_them(tmp_path, compression):
    tf = pytest.importorskip("tensorflow")
    for part in range(3):
        with TFRecordWriter(tmp_path / f"part-{part}", compression=compression) as writer:
            for n in range(part * 1000, part * 1000 + 1000):
                writer.write({"n": n})
    merge(str(tmp_path / "part-*"), tmp_path / "out")
    feature = {"n": tf.io.FixedLenFeature([], tf.int64)}
    rows = tf.data.TFRecordDataset(str(tmp_path / "out"), compression or "")
    assert [int(tf.io.parse_single_example(row, feature)["n"]) for row in rows] == list(range(3000))


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_empty_files_go_with_any(write, tmp_path, pack):
    empty = tmp_path / "empty"
    empty.write_bytes(b"")
    paths = [empty, write("a", [b"one"], pack), empty, write("none", [], pack), write("b", [b"two"], pack)]
    assert merge(paths, tmp_path / "out").records == 2
    assert list(records.read(tmp_path / "out")) == [b"one", b"two"]
    assert merge([empty, empty], tmp_path / "nothing").records == 0
    assert (tmp_path / "nothing").read_bytes() == b""


def refused(kind, paths, out, match):
    before = sorted(os.listdir(out.parent))
    with pytest.raises(kind, match=match) as caught:
        merge(paths, out)
    assert sorted(os.listdir(out.parent)) == before
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    return caught.value


def test_files_of_different_compression_are_refused_by_name(write, tmp_path):
    plain, packed = write("plain", [b"one"]), write("packed", [b"two"], gzip.compress)
    said = str(refused(UsageError, [plain, plain, packed], tmp_path / "out", "cannot be joined"))
    assert f"{plain} is a plain file" in said
    assert f"{packed} is gzip" in said
    assert f"feedline repair {packed} OUT" in said


def test_zlib_files_are_refused_with_a_way_out(write, tmp_path):
    paths = [write(name, [b"one"], zlib.compress) for name in "ab"]
    said = str(refused(UsageError, paths, tmp_path / "out", "zlib files cannot be joined"))
    assert f"feedline repair {paths[0]} OUT" in said


def test_an_output_that_is_an_input_or_is_there_is_refused(write, tmp_path):
    a, b = write("a", [b"one"]), write("b", [b"two"])
    refused(UsageError, [a, b], b, "among the files")
    (tmp_path / "link").symlink_to(b)
    refused(UsageError, [a, tmp_path / "link"], b, "among the files")
    refused(UsageError, [a], b, "never overwrites")
    assert b.read_bytes() == frame(b"two")


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("bit", [8 * 5, 8 * 100 + 3, 8 * 13])
def test_a_bad_source_is_named_with_its_place_and_there_is_no_output(write, tmp_path, number, bit):
    paths = [write(f"{n}", [b"good" * 10] * 20) for n in range(3)]
    paths[number].write_bytes(flip(paths[number].read_bytes(), bit))
    error = refused(CorruptRecord, paths, tmp_path / "out", "corrupt")
    record = bit // 8 // 56
    check_located(error, paths[number], record, record * 56)


def test_a_bad_record_behind_much_that_is_good_is_found(tmp_path, write):
    large = write("large", [os.urandom(1 << 20)] * 100)
    torn = write("torn", [b"one"])
    torn.write_bytes(torn.read_bytes() + frame(b"two")[:-1])
    refused(CorruptRecord, [large, large, torn], tmp_path / "out", "torn: record 1 at byte 19")


def test_a_damaged_or_padded_gzip_file_is_refused(write, tmp_path):
    good = write("good", [b"one" * 100], gzip.compress)
    bad = write("bad", [b"two" * 100], gzip.compress)
    content = bad.read_bytes()
    bad.write_bytes(content[:-3])
    refused(CorruptRecord, [good, bad, good], tmp_path / "out", "bad")
    bad.write_bytes(content + b"\0" * 512)
    refused(CorruptRecord, [good, bad, good], tmp_path / "out", "512 zeros")


def test_missing_sources_and_what_is_no_file_are_refused(write, tmp_path):
    a = write("a", [b"one"])
    refused(FileNotFoundError, [a, tmp_path / "missing"], tmp_path / "out", "missing")
    os.mkfifo(tmp_path / "pipe")
    refused(UsageError, [a, tmp_path / "pipe"], tmp_path / "out", "no regular file")
    with pytest.raises(UsageError, match="empty"):
        merge([], tmp_path / "out")
    with pytest.raises(WriteError) as caught:
        merge([a], tmp_path / "no" / "out")
    assert caught.value.errno == errno.ENOENT


def test_a_source_that_is_being_appended_is_refused(write, tmp_path):
    a = write("a", [b"one"])
    with a.open("ab") as writer:
        fcntl.flock(writer, fcntl.LOCK_EX)
        writer.write(frame(b"two")[:-1])
        writer.flush()
        refused(CorruptRecord, [a], tmp_path / "out", "written while it was read")


def comes_out(path, out):
    try:
        return merge([path], out).records > 0
    except CorruptRecord as error:
        if "written while it was read" not in str(error):
            raise
        return False


def test_sources_that_grow_are_merged_whole_or_refused(tmp_path):
    path = tmp_path / "a"
    ended = threading.Event()
    with AppendWriter(path) as writer:
        writer.write(b"first")

        def grow():
            while not ended.wait(0.0005):
                writer.write(b"x" * 50_000)

        thread = threading.Thread(target=grow)
        thread.start()
        merged = 0
        try:
            for n in range(100):
                out = tmp_path / f"out-{n}"
                if comes_out(path, out):
                    merged += 1
                    assert records.verify(out).ok
                else:
                    assert not out.exists()
        finally:
            ended.set()
            thread.join()
    assert merge([path], tmp_path / "at rest").records == records.count(path)
    assert merged < 100


def test_another_file_system_is_copied_to_by_reading(write, tmp_path):
    if not os.path.isdir("/dev/shm") or os.stat("/dev/shm").st_dev == os.stat(tmp_path).st_dev:
        pytest.skip("no second file system here")
    payloads = [os.urandom(100_000) for _ in range(50)]
    paths = [write("a", payloads), write("b", payloads[:3])]
    out = f"/dev/shm/feedline-merge-{os.getpid()}"
    try:
        assert merge(paths, out).records == 53
        assert list(records.read(out)) == payloads + payloads[:3]
    finally:
        os.unlink(out)


@pytest.mark.parametrize("code", [errno.EXDEV, errno.EOPNOTSUPP, errno.EINVAL, None])
def test_what_the_kernel_does_not_copy_is_read(write, tmp_path, monkeypatch, code):
    copy, calls = os.copy_file_range, []

    def refusing(source, target, size):
        calls.append(size)
        if len(calls) % 2 == 0:
            if code is None:
                return 0
            raise OSError(code, os.strerror(code))
        return copy(source, target, min(size, 1000))

    monkeypatch.setattr(os, "copy_file_range", refusing)
    paths = [write(name, [name.encode() * 999] * 5) for name in "ab"]
    merge(paths, tmp_path / "out")
    assert len(calls) == 4
    assert (tmp_path / "out").read_bytes() == paths[0].read_bytes() + paths[1].read_bytes()


def test_a_full_disk_is_a_write_error_and_nothing_is_left(write, tmp_path):
    large = write("large", [b"x" * 1_000_000])
    done = run_python(
        "import os, resource, sys, feedline as fl\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, 500_000))\n"
        "try: fl.records.merge(sys.argv[1:3], sys.argv[3])\n"
        "except fl.WriteError as error: print(error.errno, sys.argv[3] in str(error))\n",
        str(large), str(large), str(tmp_path / "out"),
    )  # fmt: skip
    assert done.stdout == f"{errno.EFBIG} True\n", done.stderr
    assert os.listdir(tmp_path) == ["large"]


def test_progress_grows_to_the_size_of_the_files(write, tmp_path):
    paths = [write(name, [os.urandom(1 << 20)] * 50) for name in "ab"]
    seen = []
    merge(paths, tmp_path / "out", progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == sum(path.stat().st_size for path in paths)
    assert len(seen) > 2


def test_a_merge_that_is_killed_leaves_nothing_to_see(write, tmp_path):
    large = write("large", [os.urandom(1 << 20)] * 64)
    code = "import sys, feedline as fl\nprint(flush=True)\nfl.records.merge([sys.argv[1]] * 60, sys.argv[2])"
    for wait in (0.02, 0.1, 0.3):
        with start_python(code, str(large), str(tmp_path / "out")) as process:
            process.stdout.readline()
            try:
                process.wait(wait)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
        assert [name for name in os.listdir(tmp_path) if not name.startswith(".")] == ["large"]
    merge([large], tmp_path / "out")
    assert sorted(os.listdir(tmp_path)) == ["large", "out"]


def test_ctrl_c_ends_a_merge_and_nothing_is_left(write, tmp_path):
    large = write("large", [os.urandom(1 << 20)] * 64)

    def interrupt(done):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        merge([large] * 20, tmp_path / "out", progress=interrupt)
    assert os.listdir(tmp_path) == ["large"]
    assert not [thread for thread in threading.enumerate() if "merge" in thread.name]

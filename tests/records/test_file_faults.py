"""Files that vanish, shrink, are replaced or cannot be read: which file, what happened, what to do."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import stat
import subprocess
import sys
from contextlib import closing
from threading import Thread

import pytest

import feedline as fl
from feedline import Dataset, UsageError, records
from feedline._native import frame
from feedline.records import open_files, read
from feedline.records.blocks import BlockSource

PAYLOAD = b"x" * 100_000
LARGE = frame(PAYLOAD) * 30  # so that reading goes on after the first records were given


@pytest.fixture
def one_file():
    """One file is open at a time."""
    before = open_files.limit()
    open_files.set_limit(1)
    yield
    open_files.set_limit(before)


@pytest.fixture
def begun(tmp_path, one_file):
    """A large file, its reader after the first record, and its handle closed."""
    path = tmp_path / "a.tfrecord"
    path.write_bytes(LARGE)
    os.utime(path, (1, 1))  # long before any file that replaces it
    (tmp_path / "other").write_bytes(LARGE)
    found = read(path)
    assert next(found) == PAYLOAD
    assert len(list(read(tmp_path / "other"))) == 30
    return path, found


def drained(found):
    """The error after the rest of the records, which are whole."""
    given = []
    with pytest.raises(OSError, match="while it was being read") as raised:
        given.extend(found)
    assert set(given) <= {PAYLOAD}
    return raised.value


# Between listing and reading


def test_a_file_that_vanished_after_it_was_listed_is_named_and_the_others_are_read(tmp_path):
    paths = [tmp_path / f"{i:03}.tfrecord" for i in range(100)]
    for path in paths:
        path.write_bytes(frame(path.name.encode()))
    dataset = Dataset.from_tfrecords(str(tmp_path / "*.tfrecord"))
    gone = paths[len(paths) // 2]
    gone.unlink()
    with pytest.raises(FileNotFoundError, match="has been removed since") as raised:
        list(dataset)
    assert raised.value.filename == str(gone)
    assert list(dataset.ignore_errors()) == [path.name.encode() for path in paths if path != gone]


def test_a_file_that_shrank_or_was_replaced_before_it_was_opened_is_read_as_it_is_then(tmp_path):
    path = tmp_path / "a.tfrecord"
    path.write_bytes(frame(b"one") + frame(b"two"))
    dataset = Dataset.from_tfrecords(str(tmp_path / "*.tfrecord"))
    os.truncate(path, len(frame(b"one")))
    assert list(dataset) == [b"one"]
    (tmp_path / "new").write_bytes(frame(b"new"))
    (tmp_path / "new").rename(path)
    assert list(dataset) == [b"new"]


# In the middle, with the handle closed


def test_a_file_that_was_removed_in_the_middle_is_an_error(begun):
    path, found = begun
    path.unlink()
    error = drained(found)
    assert isinstance(error, FileNotFoundError)
    assert error.filename == str(path)
    assert "was removed while it was being read" in str(error)
    assert "Put it back" in str(error)


def test_a_file_that_was_replaced_in_the_middle_is_an_error(begun):
    path, found = begun
    new = path.with_name("new")
    new.write_bytes(LARGE)
    new.rename(path)
    error = drained(found)
    assert (error.errno, error.filename) == (errno.ESTALE, str(path))
    assert "was replaced by another one" in str(error)
    assert "Begin again" in str(error)


def test_a_new_file_with_the_old_inode_is_another_one(begun):
    path, found = begun
    path.unlink()
    path.write_bytes(LARGE)
    assert drained(found).errno == errno.ESTALE


@pytest.mark.parametrize("size", [0, len(frame(PAYLOAD)) * 20, len(frame(PAYLOAD)) * 20 + 777])
def test_a_file_that_shrank_in_the_middle_is_an_error(begun, size):
    path, found = begun
    os.truncate(path, size)
    error = drained(found)
    assert (error.errno, error.filename) == (errno.ESTALE, str(path))
    assert f"shrank from {len(LARGE)} to " in str(error)
    assert "Begin again" in str(error)


def test_a_file_that_grew_in_the_middle_is_read_as_it_was(begun):
    path, found = begun
    with open(path, "ab") as file:
        file.write(LARGE)
    assert len(list(found)) == 29


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("skip", [False, True])
def test_shrinking_is_no_damage_that_could_be_skipped(tmp_path, threads, skip):
    path = tmp_path / "a.tfrecord"
    path.write_bytes(LARGE * 3)
    source = BlockSource(
        [str(path)], None, rows=2, threads=threads, compression="auto", verify=True, skip=skip
    )
    with closing(source):
        assert len(source.next()) == 2
        os.truncate(path, len(frame(PAYLOAD)) * 60 + 5)
        with pytest.raises(OSError, match="shrank from"):
            list(iter(source.next, None))


def test_records_by_index_of_a_file_that_was_removed_or_replaced_raise(tmp_path, one_file):
    paths = [tmp_path / name for name in ("a.tfrecord", "b.tfrecord")]
    for path in paths:
        path.write_bytes(LARGE)
        records.index(path)
    dataset = Dataset.from_tfrecords(paths)
    assert dataset[0] == dataset[30] == PAYLOAD  # the second closes the first
    os.utime(paths[0], (1, 1))
    paths[0].rename(tmp_path / "moved")
    with pytest.raises(FileNotFoundError, match="was removed while it was being read"):
        dataset[1]
    paths[0].write_bytes(LARGE)
    with pytest.raises(OSError, match="was replaced by another one"):
        dataset[1]


# What cannot be read

AS_OTHER_USER = """
import os, sys
import feedline as fl
os.chdir(sys.argv[1])
dataset = fl.Dataset.from_tfrecords("*.tfrecord")
os.setgroups([])
os.setuid(65534)
try:
    list(dataset)
except PermissionError as error:
    print(error.filename, error)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user to be refused")
def test_the_one_file_of_many_that_may_not_be_read_is_named(tmp_path):
    tmp_path.chmod(0o755)
    for i in range(300):
        path = tmp_path / f"{i:03}.tfrecord"
        path.write_bytes(frame(b"x"))
        path.chmod(0o600 if i == 217 else 0o644)
    ran = subprocess.run(
        [sys.executable, "-c", AS_OTHER_USER, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("217.tfrecord ")
    assert "Permission denied. Give this user the right to read it" in ran.stdout


SHIM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <unistd.h>
static ssize_t broken(int fd, void *into, size_t size, off_t offset) {
  static ssize_t (*real)(int, void *, size_t, off_t);
  if (!real) real = dlsym(RTLD_NEXT, "pread64");
  if (offset >= 1000000) { errno = EIO; return -1; }
  return real(fd, into, size, offset);
}
ssize_t pread(int fd, void *into, size_t size, off_t offset) { return broken(fd, into, size, offset); }
ssize_t pread64(int fd, void *into, size_t size, off_t offset) { return broken(fd, into, size, offset); }
"""

ON_A_BAD_DISK = """
import sys
import feedline as fl
from feedline.records import read
for threads in (None, 1):
    found = 0
    source = iter(fl.Dataset.from_tfrecords(sys.argv[1])) if threads is None else read(sys.argv[1])
    try:
        for _ in source:
            found += 1
    except OSError as error:
        print(found, error.errno, error.filename, error, sep="|")
"""


def test_an_input_output_error_in_the_middle_comes_after_the_records_before_it(tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("the shim that fails like a bad disk needs a C compiler")
    shim, source, path = (str(tmp_path / name) for name in ("shim.so", "shim.c", "a.tfrecord"))
    (tmp_path / "shim.c").write_text(SHIM)
    (tmp_path / "a.tfrecord").write_bytes(LARGE)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", shim, source, "-ldl"], check=True, timeout=60)
    ran = subprocess.run(
        [sys.executable, "-c", ON_A_BAD_DISK, path],
        env={**os.environ, "LD_PRELOAD": shim},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert len(lines) == 2
    for line in lines:
        found, number, name, said = line.split("|")
        assert 1 <= int(found) <= 1_000_000 // len(PAYLOAD) + 3
        assert (int(number), name) == (errno.EIO, path)
        assert "cannot read at byte" in said
        assert "The disk or the network failed" in said


# What is no file


@pytest.fixture
def mixed(tmp_path):
    """Two files among a directory, a pipe and a socket; and the socket, which must stay open."""
    for name in ("a.tfrecord", "z.tfrecord"):
        (tmp_path / name).write_bytes(frame(name.encode()))
    (tmp_path / "directory.tfrecord").mkdir()
    os.mkfifo(tmp_path / "pipe.tfrecord")
    with socket.socket(socket.AF_UNIX) as listening:
        before = os.getcwd()
        os.chdir(tmp_path)  # for a short path
        try:
            listening.bind("socket.tfrecord")
        finally:
            os.chdir(before)
        assert stat.S_ISSOCK(os.stat(tmp_path / "socket.tfrecord").st_mode)
        yield tmp_path


def test_a_glob_or_a_directory_means_regular_files(mixed):
    expected = [b"a.tfrecord", b"z.tfrecord"]
    assert list(Dataset.from_tfrecords(str(mixed / "*.tfrecord"))) == expected
    assert list(Dataset.from_tfrecords(mixed)) == expected


def test_list_files_leaves_out_pipes_and_sockets(mixed):
    found = [os.path.basename(path) for path in Dataset.list_files(str(mixed / "*"), shuffle=False)]
    assert found == [b"a.tfrecord", b"directory.tfrecord", b"z.tfrecord"]


def test_a_pipe_is_read_if_it_is_named(mixed):
    pipe = mixed / "pipe.tfrecord"
    writer = Thread(target=pipe.write_bytes, args=(frame(b"through the pipe"),))
    writer.start()
    assert list(Dataset.from_tfrecords([mixed / "a.tfrecord", pipe])) == [b"a.tfrecord", b"through the pipe"]
    writer.join(60)


def test_a_socket_that_is_named_is_an_error_that_says_so(mixed):
    with pytest.raises(OSError, match="It is a socket") as raised:
        list(Dataset.from_tfrecords([mixed / "socket.tfrecord"]))
    assert raised.value.filename == str(mixed / "socket.tfrecord")


@pytest.mark.parametrize("as_directory", [False, True])
def test_links_that_lead_in_a_circle_or_nowhere_are_named(tmp_path, as_directory):
    (tmp_path / "a").write_bytes(frame(b"a"))
    files = str(tmp_path) if as_directory else str(tmp_path / "*")
    (tmp_path / "c").symlink_to(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError) as nowhere:
        list(Dataset.from_tfrecords(files))
    assert nowhere.value.filename == str(tmp_path / "c")
    (tmp_path / "b").symlink_to(tmp_path / "b")
    with pytest.raises(OSError, match="Its links lead in a circle") as circle:
        list(Dataset.from_tfrecords(files))
    assert (circle.value.errno, circle.value.filename) == (errno.ELOOP, str(tmp_path / "b"))
    assert len(Dataset.list_files(str(tmp_path / "*"))) == 3


@pytest.mark.parametrize("make", [Dataset.from_tfrecords, Dataset.list_files])
def test_an_empty_match_names_the_pattern_and_the_closest_directory_that_exists(tmp_path, make):
    (tmp_path / "train").mkdir()
    for pattern, closest in (
        (tmp_path / "train" / "*.tfrecord", tmp_path / "train"),
        (tmp_path / "train" / "2024" / "*" / "*.tfrecord", tmp_path / "train"),
        (tmp_path / "trian" / "*.tfrecord", tmp_path),
    ):
        with pytest.raises(UsageError) as raised:
            make(str(pattern))
        assert str(pattern) in str(raised.value)
        assert f"The closest directory that exists is {closest}." in str(raised.value)


def test_a_path_with_several_patterns_that_match_nothing_names_each_parent_once(tmp_path):
    with pytest.raises(fl.UsageError) as raised:
        Dataset.list_files([str(tmp_path / "a*"), str(tmp_path / "b*")])
    assert str(raised.value).count("closest directory") == 1

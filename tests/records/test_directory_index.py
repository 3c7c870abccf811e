"""One index for many files of a directory: complete, whoever writes it, and never believed when it lies."""

import gzip
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feedline import CorruptRecord, Dataset, UsageError, _native, records
from feedline.records import directory_index
from feedline.records.directory_index import read_directory_index
from feedline.records.index_files import MANY, index_each
from feedline.records.indexing import stored_features, write_index
from feedline.records.known_indexes import Indexes, load_index
from tests.records.corrupt import bytes_read, flip, frame, frames


def payloads_of(number):
    return [b"%d-%d" % (number, n) for n in range(number % 4)]


def make(directory, numbers):
    directory.mkdir(exist_ok=True)
    for number in numbers:
        (directory / f"{number:05}").write_bytes(frames(payloads_of(number)))


def settle():
    """Until the times of files that were just made prove that they did not change."""
    time.sleep(directory_index._UNSETTLED / 1e9 + 0.02)


@pytest.fixture
def many(tmp_path):
    """A directory of files that share an index."""
    directory = tmp_path / "many"
    make(directory, range(MANY))
    settle()
    records.index([directory])
    return directory


def paths_in(directory):
    return sorted(str(path) for path in directory.glob("[!.]*"))


def check_indexed(directory):
    """Every file has an index that is true, and it is that of the file as it is now."""
    for path in paths_in(directory):
        offsets = load_index(path)
        with open(path, "rb") as file:
            data = file.read()
        bounds = zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
        assert frames(data[begin + 12 : end - 4] for begin, end in bounds) == data


opened = None


def _note(event, args):
    if opened is not None and event == "open":
        opened.append(os.fsdecode(args[0]) if isinstance(args[0], str | bytes) else "")


sys.addaudithook(_note)


@pytest.fixture
def opens():
    """The paths that Python opens meanwhile."""
    global opened
    opened = []
    yield opened
    opened = None


def test_many_files_of_a_directory_share_an_index(many):
    assert [path.name for path in many.glob(".*")] == [".flindex"]
    check_indexed(many)


def test_fewer_files_have_an_index_each(tmp_path):
    make(tmp_path / "few", range(MANY - 1))
    found = records.index([tmp_path / "few"])
    assert [len(one) for one in found] == [number % 4 for number in range(MANY - 1)]
    assert len(list((tmp_path / "few").glob(".*.flindex"))) == MANY - 1
    assert not (tmp_path / "few" / ".flindex").exists()


def test_files_of_several_directories_are_counted_apart(tmp_path):
    make(tmp_path / "many", range(MANY))
    make(tmp_path / "few", range(3))
    found = records.index([tmp_path / "few", tmp_path / "many"])
    assert len(found) == MANY + 3
    assert (tmp_path / "many" / ".flindex").exists()
    assert len(list((tmp_path / "few").glob(".*.flindex"))) == 3


def test_neither_patterns_nor_directories_mean_the_index(many):
    assert records.resolve(many) == records.resolve(many / "*") == paths_in(many)
    assert len(Dataset.list_files(str(many / "*"))) == MANY


def test_a_thousand_files_are_known_by_one_read(tmp_path, opens):
    make(tmp_path / "a", range(1500))
    settle()
    records.index([tmp_path / "a"])
    del opens[:]
    dataset = Dataset.from_tfrecords(tmp_path / "a")
    assert len(dataset) == sum(number % 4 for number in range(1500))
    assert [path for path in opens if str(tmp_path) in path] in (
        [],  # it was remembered
        [str(tmp_path / "a" / ".flindex")],
    )
    shuffled = sorted(dataset.shuffle(seed=3))
    assert shuffled == sorted(record for number in range(1500) for record in payloads_of(number))


def test_files_that_are_added_are_indexed_without_reading_the_others(tmp_path, opens):
    directory = tmp_path / "a"
    directory.mkdir()
    for number in range(MANY):
        (directory / f"{number:05}").write_bytes(frame(bytes(100)) * 500)
    settle()
    records.index([directory])
    make(directory, range(MANY, MANY + 5))
    before = bytes_read()
    del opens[:]
    records.index([directory])
    assert bytes_read() - before < 1_000_000  # all of them have 3.7 MB
    assert not any(path.endswith("00000") for path in opens)
    check_indexed(directory)
    assert len(read_directory_index(str(directory))) == MANY + 5


def test_entries_of_files_that_are_gone_are_dropped(many):
    os.unlink(many / "00003")
    (many / "00004").rename(many / "moved")
    records.index([many, *paths_in(many)])
    names = set(read_directory_index(str(many)))
    assert names == {os.path.basename(path) for path in paths_in(many)}
    check_indexed(many)


def test_entries_of_files_that_were_not_asked_for_stay(tmp_path):
    make(tmp_path / "a", range(2 * MANY))
    paths = paths_in(tmp_path / "a")
    records.index(paths[:MANY])
    records.index(paths[MANY:])
    check_indexed(tmp_path / "a")
    assert len(read_directory_index(str(tmp_path / "a"))) == 2 * MANY


def test_an_index_that_fits_is_left_as_it_is(many):
    before = (many / ".flindex").stat()
    records.index([many])
    assert (many / ".flindex").stat().st_ino == before.st_ino


CHANGES = {
    "appended": lambda data: data + frame(b"more"),
    "shortened": lambda data: data[: len(frame(b"7-0"))],
    "rewritten in the same size": lambda data: frames(payloads_of(7)[::-1]),
    "another file": lambda data: frames([b"x" * 100]),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("restore_time", [False, True])
@pytest.mark.parametrize("replace", [False, True])
def test_a_file_that_changed_since_is_noticed(many, change, restore_time, replace):
    path = many / "00007"
    times, data = path.stat(), CHANGES[change](path.read_bytes())
    if replace:
        path.with_name(".new").write_bytes(data)
        path.with_name(".new").replace(path)
    else:
        path.write_bytes(data)
    if restore_time:
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert load_index(str(path)) is None
    assert "has changed or was copied since" in str(_error(lambda: len(Dataset.from_tfrecords(many))))
    records.index([many])
    check_indexed(many)


def _error(do):
    with pytest.raises((TypeError, UsageError)) as caught:
        do()
    return caught.value


def test_a_change_in_the_tick_of_the_indexing_is_noticed(tmp_path):
    directory = tmp_path / "a"
    make(directory, range(MANY))
    for number in range(MANY):  # as soon as the files are made: their times prove nothing
        path = directory / f"{number:05}"
        path.write_bytes(frames(payloads_of(7)))
        if number == MANY - 1:
            records.index([directory])
        times = path.stat()
    path.write_bytes(frames(payloads_of(7)[::-1]))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert load_index(str(path)) is None


def test_a_file_that_is_moved_into_the_place_of_another_does_not_get_its_index(many):
    other = many.parent / "other"
    other.write_bytes(frames(payloads_of(7)[::-1]))
    times = (many / "00007").stat()
    os.utime(other, ns=(times.st_atime_ns, times.st_mtime_ns))
    other.replace(many / "00007")
    assert load_index(str(many / "00007")) is None


def test_a_copy_of_the_whole_directory_keeps_its_index(many):
    copy = many.parent / "copy"
    shutil.copytree(many, copy)  # with the times of files, but not their ctime
    check_indexed(copy)


def test_a_sidecar_serves_where_the_directory_has_none(many):
    path = str(many / "00007")
    os.utime(path, ns=(1, 1))
    assert load_index(path) is None
    records.index(path)
    assert (many / ".00007.flindex").exists()
    check_indexed(many)


def test_what_sidecars_say_is_taken_over_and_they_stay(tmp_path):
    make(tmp_path / "a", range(MANY))
    paths = paths_in(tmp_path / "a")
    records.index(paths[:10])
    write_index(paths[3], load_index(paths[3]), "{}")
    write_index(paths[20], None, "{}")
    records.index(paths)
    assert len(read_directory_index(str(tmp_path / "a"))) == MANY
    assert stored_features(paths[3]) == stored_features(paths[20]) == "{}"
    check_indexed(tmp_path / "a")


def test_files_without_an_index_hold_up_no_others(many):
    (many / "gz").write_bytes(gzip.compress(frames([b"x"])))
    (many / "bad").write_bytes(flip(frames([b"x"]), 3))
    (many / "good").write_bytes(frames([b"x"]))
    found = {os.path.basename(one.path): one.found for one in index_each(paths_in(many))}
    assert isinstance(found["gz"], UsageError)
    assert isinstance(found["bad"], CorruptRecord)
    assert found["good"].tolist() == [0, 17]
    assert len(read_directory_index(str(many))) == MANY + 1
    with pytest.raises(CorruptRecord, match="bad: record 0"):
        records.index([many])


def test_a_directory_that_cannot_be_written_still_gives_the_indexes(many, monkeypatch):
    (many / ".flindex").unlink()

    def replace(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", replace)
    found = index_each(paths_in(many))
    assert [len(one.result()) for one in found] == [number % 4 for number in range(MANY)]
    assert all(".flindex: No space left" in str(one.trouble) for one in found)
    assert list(many.glob(".*")) == []


def test_a_set_that_is_too_large_for_one_index_has_an_index_for_each_file(many, monkeypatch):
    (many / ".flindex").unlink()
    monkeypatch.setattr(directory_index, "_MAX_BYTES", 1000)
    records.index([many])
    assert len(list(many.glob(".0*.flindex"))) == MANY
    assert not (many / ".flindex").exists()
    check_indexed(many)


def test_names_of_any_bytes_have_an_index(tmp_path):
    directory = os.fsencode(tmp_path / "a")
    os.mkdir(directory)
    for number in range(MANY):
        with open(os.path.join(directory, b"\xff\n %d" % number), "wb") as file:
            file.write(frames(payloads_of(number)))
    records.index([os.fsdecode(directory)])
    assert all(
        load_index(os.fsdecode(entry.path)) is not None
        for entry in os.scandir(directory)
        if entry.name[0] != 46
    )
    assert len(read_directory_index(os.fsdecode(directory))) == MANY


def with_checksum(data):
    return data + np.uint64(_native.crc32c(np.frombuffer(data, np.uint8))).tobytes()


def forge(many, change):
    """The index with some words changed, under a checksum that holds."""
    words = np.frombuffer((many / ".flindex").read_bytes(), np.uint64)[:-1].copy()
    changed = change(words)
    (many / ".flindex").write_bytes(with_checksum((words if changed is None else changed).tobytes()))


HEAD, FACTS = 4, 5
STARTS = HEAD + FACTS * MANY
NAMES = STARTS + MANY + 1
FIRST = NAMES + -(-(6 * MANY - 1) // 8)  # offset


def put(at, value):
    def change(words):
        words[at] = value

    return change


FORGERIES = {
    "2**63 files": put(1, 2**63),
    "2**64 - 1 offsets": put(2, 2**64 - 1),
    "names of 2**64 - 1 bytes": put(3, 2**64 - 1),
    "no files": put(1, 0),
    "one file more": put(1, MANY + 1),
    "names that are longer": put(3, 6 * MANY + 7),
    "one name twice": put(NAMES + 1, int.from_bytes(b"000\x000000", "little")),
    "offsets that begin far outside": put(STARTS, 2**63),
    "offsets that end far outside": put(STARTS + MANY, 2**63),
    "offsets of a file that fall": put(STARTS + 2, 0),
    "a first offset that is not 0": put(FIRST, 1),
    "an offset far outside": put(FIRST + 1, 2**64 - 8),
    "a file of another size": put(HEAD + FACTS, 2**62),
    "cut short": lambda words: words[:-1],
    "only a magic": lambda words: words[:1],
    "longer": lambda words: np.concatenate([words, words[-1:]]),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_an_index_that_lies_under_a_sound_checksum_is_made_anew(many, forgery):
    good = (many / ".flindex").read_bytes()
    forge(many, FORGERIES[forgery])
    assert (many / ".flindex").read_bytes() != good
    assert read_directory_index(str(many)) is None
    records.index([many])
    assert (many / ".flindex").read_bytes() == good


def test_every_damaged_byte_is_noticed(many):
    good = (many / ".flindex").read_bytes()
    for at in range(len(good)):
        assert directory_index._parsed(np.frombuffer(flip(good, 8 * at + at % 8), np.uint8)) is None
    for end in range(len(good)):
        assert directory_index._parsed(np.frombuffer(good[:end], np.uint8)) is None


@given(st.binary(max_size=200))
@settings(max_examples=50)
def test_random_bytes_are_no_index(junk):
    assert directory_index._parsed(np.frombuffer(junk, np.uint8)) is None
    assert directory_index._parsed(np.frombuffer(with_checksum(b"FLINDEXD" + junk), np.uint8)) is None


@pytest.mark.parametrize("kind", ["directory", "pipe", "too large"])
def test_what_is_no_file_of_a_fitting_size_is_no_index(many, kind):
    (many / ".flindex").unlink()
    if kind == "directory":
        (many / ".flindex").mkdir()
    elif kind == "pipe":
        os.mkfifo(many / ".flindex")
    else:
        with open(many / ".flindex", "wb") as file:
            file.truncate(1 << 40)
    assert read_directory_index(str(many)) is None
    assert [len(one) for one in records.index([many])] == [number % 4 for number in range(MANY)]


INDEX = """
import sys
from feedline import records
print("ready", flush=True)
sys.stdin.readline()
files = sys.argv[1:]
records.index(files)
"""


def indexer(files):
    return subprocess.Popen(
        [sys.executable, "-c", INDEX, *files], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_processes_that_index_a_directory_at_once_lose_nothing(tmp_path):
    make(tmp_path / "a", range(4 * MANY))
    paths = paths_in(tmp_path / "a")
    parts = [paths[begin : begin + 2 * MANY] for begin in (0, MANY, 2 * MANY)]
    workers = [indexer(part) for part in parts]
    for worker in workers:
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        worker.stdin.write("go\n")
        worker.stdin.flush()
    for worker in workers:
        worker.communicate(timeout=100)
        assert worker.returncode == 0
    assert set(read_directory_index(str(tmp_path / "a"))) == {os.path.basename(path) for path in paths}
    assert [path.name for path in (tmp_path / "a").glob(".*")] == [".flindex"]
    check_indexed(tmp_path / "a")


INDEX_FOR_EVER = """
import os, sys
from feedline import records
directory, paths = sys.argv[1], None
print("ready", flush=True)
for round in range(10**9):
    with open(os.path.join(directory, f"new-{round % 7}"), "wb") as file:
        file.write(bytes.fromhex(sys.argv[2]) * (round % 5))
    records.index([directory])
"""


def test_an_indexer_that_is_killed_at_any_moment_leaves_an_index_that_is_whole(many):
    chance = random.Random(20)
    for _ in range(5):
        worker = subprocess.Popen(
            [sys.executable, "-c", INDEX_FOR_EVER, str(many), frame(b"x").hex()], stdout=subprocess.PIPE
        )
        try:
            assert worker.stdout.readline() == b"ready\n"
            for _ in range(20):  # whoever reads meanwhile sees a whole one, too
                time.sleep(chance.uniform(0, 0.02))
                assert read_directory_index(str(many)) is not None
        finally:
            worker.send_signal(signal.SIGKILL)
            worker.communicate(timeout=60)
        assert len(read_directory_index(str(many))) >= MANY
        records.index([many])
        check_indexed(many)
    (many / "last").write_bytes(b"")
    records.index([many])  # removes what the killed one left
    assert [path.name for path in many.glob(".*")] == [".flindex"]


def test_an_index_is_asked_once_for_each_directory(many, opens):
    known = Indexes()
    assert all(known.in_directory(path) is not None for path in paths_in(many))
    assert opens.count(str(many / ".flindex")) <= 1

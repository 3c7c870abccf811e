"""with_options(max_open_files=...): files are counted while pipelines run, and results stay the same."""

from __future__ import annotations

import gzip
import hashlib
import os
import signal
import subprocess
import sys
from threading import Event, Thread

import numpy as np
import pytest

from feedline import Dataset, records
from feedline._native import frame
from feedline.records import open_files
from feedline.run import pool

LARGE = 300_000  # bytes: more than a file that is read at once


def write(path, number, records_=3, size=100):
    """Bytes that deflate cannot shrink, so that a large file stays large."""
    payloads = np.random.default_rng(number).bytes(records_ * size)
    data = b"".join(frame(payloads[i * size : (i + 1) * size]) for i in range(records_))
    path.write_bytes(gzip.compress(data, 1) if path.suffix == ".gz" else data)
    return str(path)


def large_files(directory, count, suffix=""):
    return [write(directory / f"{i:03}{suffix}", i, 6, LARGE // 3) for i in range(count)]


def interleaved(paths, cycle_length):
    return Dataset.from_tensor_slices(paths).interleave(
        lambda path: Dataset.from_tfrecords(path), cycle_length=cycle_length
    )


def open_below(directory, pid="self"):
    """How many files below the directory a process has open."""
    found = 0
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            found += os.readlink(f"/proc/{pid}/fd/{name}").startswith(f"{directory}/")
        except OSError:
            continue  # closed meanwhile
    return found


class Watch:
    """Counts what this process, and its workers, have open: all the time, in a thread of its own."""

    def __init__(self, directory):
        self.most = 0
        self._directory = directory
        self._stop = Event()
        self._thread = Thread(target=self._run)

    def _run(self):
        while not self._stop.wait(0.001):
            self.count()

    def count(self):
        with open(f"/proc/self/task/{os.getpid()}/children") as children:
            pids = ["self", *children.read().split()]
        found = 0
        for pid in pids:
            try:
                found += open_below(self._directory, pid)
            except OSError:
                continue  # it has ended
        self.most = max(self.most, found)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._stop.set()
        self._thread.join()


PROGRAM = """
import hashlib, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
from tests.ops.test_max_open_files import Watch, interleaved
from feedline.records import open_files

directory, limit = sys.argv[1], int(sys.argv[2])
paths = [f"{directory}/{i:04}" for i in range(2000)]
dataset = interleaved(paths, 1024)
if limit:
    dataset = dataset.with_options(max_open_files=limit)
digests = [hashlib.sha256() for _ in range(3)]
with Watch(directory) as watch:
    for number, elements in enumerate(zip(*(dataset for _ in digests), strict=True)):
        for digest, element in zip(digests, elements):
            digest.update(element)
        if number % 100 == 0:
            watch.count()
print(watch.most, open_files.limit(), open_files.most_open(), *(digest.hexdigest() for digest in digests))
"""


@pytest.mark.parametrize("limit", [8, 0])
def test_2000_files_with_cycle_length_1024_in_three_iterators_at_ulimit_64(tmp_path, limit):
    for i in range(2000):  # every 40th is larger than what is read at once
        write(tmp_path / f"{i:04}", i, *((4, LARGE // 3) if i % 40 == 0 else (2, 50)))
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), str(limit)],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert ran.returncode == 0, ran.stderr
    seen, limit_of_process, most, *digests = ran.stdout.split()
    assert int(limit_of_process) == 32
    assert 0 < int(seen) <= int(most) <= (limit or 32)
    expected = hashlib.sha256()
    for element in interleaved([str(tmp_path / f"{i:04}") for i in range(2000)], 1024):
        expected.update(element)
    assert set(digests) == {expected.hexdigest()}


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_large_files_are_read_by_turns_with_one_of_them_open(tmp_path, suffix):
    paths = large_files(tmp_path, 6, suffix)
    dataset = interleaved(paths, 6).with_options(max_open_files=1)
    with Watch(tmp_path) as watch:
        found = list(dataset)
    assert found == list(interleaved(paths, 6))
    assert watch.most <= 1
    assert dataset._node._budget.native.most == 1


def test_small_compressed_files_are_closed_at_once(tmp_path):
    paths = [write(tmp_path / f"{i}.gz", i) for i in range(40)]
    dataset = interleaved(paths, 40).with_options(max_open_files=1)
    iterator = iter(dataset)
    next(iterator)
    assert open_below(tmp_path) <= 1
    assert [*iterator] == list(interleaved(paths, 40))[1:]


def test_records_are_read_by_index_within_the_limit(tmp_path):
    paths = large_files(tmp_path, 8)
    for path in paths:
        records.index(path)
    plain = Dataset.from_tfrecords(paths).shuffle(seed=3, reshuffle_each_iteration=False)
    limited = plain.with_options(max_open_files=2)
    assert list(limited) == list(plain)
    assert limited[5] == plain[5]
    assert limited._node._budget.native.most == 2


def test_the_narrower_of_two_limits_counts_whichever_comes_first(tmp_path):
    paths = large_files(tmp_path, 4)
    expected = list(interleaved(paths, 4))
    for inner, outer in ((1, 3), (3, 1)):
        dataset = interleaved(paths, 4).with_options(max_open_files=inner).with_options(max_open_files=outer)
        assert list(dataset) == expected
        budgets = dataset._node._budget, dataset._node.input._budget
        assert [budget.native.most for budget in budgets] == [1, 1]


def test_a_state_that_was_taken_with_one_limit_is_good_for_another(tmp_path):
    paths = large_files(tmp_path, 5)
    narrow, wide = (interleaved(paths, 5).with_options(max_open_files=limit) for limit in (1, 100))
    expected = list(interleaved(paths, 5))
    for one, other in ((narrow, wide), (wide, narrow), (narrow, narrow)):
        iterator = iter(one)
        assert [next(iterator) for _ in range(11)] == expected[:11]
        again = iter(other)
        again.load_state_dict(iterator.state_dict())
        assert [*again] == expected[11:]


def test_interrupts_at_any_moment_lose_nothing(tmp_path):
    paths = large_files(tmp_path, 4)
    dataset = interleaved(paths, 4).with_options(max_open_files=1)
    found, interrupts = [], 0
    iterator = iter(dataset)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        while True:
            # A delay that grows, so that a slow machine gets on, too.
            signal.setitimer(signal.ITIMER_REAL, 0.0005 * (1 + interrupts))
            try:
                element = next(iterator)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                interrupts += 1
                assert interrupts < 10_000
                continue
            except StopIteration:
                break
            found.append(element)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert found == list(interleaved(paths, 4))


def in_workers(paths):
    """A function that is called in workers makes them read the files; what they have open comes along."""

    def told(record):
        return record[:10], np.array([os.getpid(), open_files.most_open()])

    return Dataset.from_tensor_slices(paths).interleave(
        lambda path: Dataset.from_tfrecords(path).map(told), cycle_length=4, num_parallel_calls=2
    )


def test_workers_share_the_limit(tmp_path):
    paths = large_files(tmp_path, 6)
    expected = [element[:10] for element in interleaved(paths, 4)]
    pool.end_idle()  # so that the workers of this test have read nothing yet
    dataset = in_workers(paths).with_options(max_open_files=3)
    most_of = {}
    with Watch(tmp_path) as watch:
        # The workers are the first iterator's: the second one reads here.
        for (one, there), (other, here) in zip(dataset, dataset, strict=True):
            assert one == other == expected.pop(0)
            assert here[0] == os.getpid() != there[0]
            most_of[int(there[0])] = int(there[1])
    assert not expected
    most_of[os.getpid()] = dataset._node._budget.native.most
    assert most_of == dict.fromkeys(most_of, 1)
    assert len(most_of) <= 3
    assert watch.most <= 3


def test_a_limit_of_one_leaves_no_file_for_a_worker(tmp_path):
    paths = large_files(tmp_path, 4)
    dataset = in_workers(paths).with_options(max_open_files=1)
    with Watch(tmp_path) as watch:
        found = list(dataset)
    assert [element for element, _ in found] == [element[:10] for element in interleaved(paths, 4)]
    assert {int(pid) for _, (pid, _) in found} == {os.getpid()}
    assert watch.most <= 1


def test_rows_for_workers_are_read_here_when_there_is_a_limit(tmp_path):
    paths = large_files(tmp_path, 4)
    for path in paths:
        records.index(path)
    shuffled = Dataset.from_tfrecords(paths).shuffle(seed=1, reshuffle_each_iteration=False)
    mapped = shuffled.map(lambda record: record[:10], num_parallel_calls=2)
    with Watch(tmp_path) as watch:
        found = list(mapped.with_options(max_open_files=1))
    assert found == list(mapped)
    assert watch.most <= 1

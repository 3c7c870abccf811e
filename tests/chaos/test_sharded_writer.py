"""ShardedWriters whose processes are killed, whose disk is full, and that meet each other."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from feedline import ShardedWriter, WriteError, records
from tests.processes import is_there, run_python, start_python


@pytest.fixture
def place(tmp_path):
    """In memory, if that can be: a kill is the same there, and nothing waits for a disk."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else tmp_path) as path:
        yield path


# Runs are forks of this program, so that hundreds take seconds. A run opens a writer, and its children write
# with it. Seals are frequent, and readers do not wait for who was killed.
RUNS = """
import collections, concurrent.futures.thread, importlib.metadata, json, os, random, shutil, signal, sys, time
import feedline as fl
from feedline.records import shard_files
from feedline.write import parts

parts.SEAL_BYTES = 2000
shard_files.PATIENCE = 0
fl.__version__  # what a commit imports is imported here, once
rng = random.Random(int(sys.argv[2]))
root = sys.argv[1]

def fork(target, *args):
    pid = os.fork()
    if pid == 0:
        try:
            target(*args)
            os._exit(0)
        except fl.WriteError:
            os._exit(3)
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(4)
    return pid

def record(name, i):
    return f"{name}:{i}:".encode() + b"x" * (i * 7919 % 300)

def produce(writer, name, count, tell):
    os.write(tell, f"{os.getpid()} ".encode())
    with writer.producer(name) as producer:
        assert producer.count == (0 if producer.last_key is None else producer.last_key + 1)
        for i in range(producer.count, count):
            producer.write(record(name, i), key=i)

def run(directory, tell, options, children, count, version):
    with fl.ShardedWriter(directory, **options) as writer:
        names = [f"{version}.{n}" for n in range(children)]
        pids = [fork(produce, writer, name, count, tell) for name in names]
        for i in range(writer.count, count):
            writer.write(record(version, i), key=i)
        for pid in pids:
            if os.waitpid(pid, 0)[1]:
                raise fl.WriteError(0, "a child has died")

def wanted(version, children, count):
    names = [str(version), *(f"{version}.{n}" for n in range(children))]
    return collections.Counter(record(name, i) for name in names for i in range(count))

def there(directory):
    names = os.listdir(directory) if os.path.isdir(directory) else []
    if not any(n.endswith("data.manifest.json") for n in names):
        assert all(n.startswith(".") for n in names), names
        return None
    return collections.Counter(fl.records.read(directory))

def check_names(directory, options):
    'There is a set, and nothing else.'
    names = os.listdir(directory)
    shards = [n for n in names if n.endswith(".tfrecord")]
    indexes = [] if "compression" in options else [f".{n}.flindex" for n in shards]
    assert sorted(names) == sorted([".data.manifest.json", *shards, *indexes]), names

def attempt(seconds, directory, *args):
    'One run that is killed after so long, it or a child; how it ended, and whether it was killed.'
    told, tell = os.pipe()
    os.set_blocking(told, False)
    pid = fork(run, directory, tell, *args)
    os.close(tell)
    killed = False
    if seconds is not None:
        time.sleep(seconds)
        victims = [pid]
        try:
            victims += map(int, os.read(told, 1000).split())
        except BlockingIOError:
            pass
        try:
            os.kill(rng.choice(victims), signal.SIGKILL)
            killed = True
        except ProcessLookupError:
            pass
    os.close(told)
    status = os.waitpid(pid, 0)[1]
    assert os.waitstatus_to_exitcode(status) in (0, 3, -9), status
    return status, killed

begin = time.monotonic()
attempt(None, f"{root}/first", {"shards": 3}, 1, 150, 0)
usual = time.monotonic() - begin
shutil.rmtree(f"{root}/first")
"""

RESUMED = """
kills = attempts = job = 0
until = time.monotonic() + 60
while kills < int(sys.argv[3]) and time.monotonic() < until:
    job += 1
    directory = f"{root}/{job}"
    children, count = rng.choice([(0, 400), (1, 200), (2, 150), (3, 100)])
    options = rng.choice([{"shards": 3}, {"max_shard_bytes": 9000}, {"shards": 2, "compression": "ZLIB"}])
    options = options | {"resume": True}
    whole = wanted(job, children, count)
    status, tries = 1, 0
    while status != 0:
        tries += 1
        seconds = 1.2 * rng.random() * usual if tries < 12 else None
        status, killed = attempt(seconds, directory, options, children, count, job)
        kills += killed
        attempts += 1
        found = there(directory)
        assert found is None or found == whole, (job, tries, found and (whole - found, found - whole))
    assert there(directory) == whole
    check_names(directory, options)
    shutil.rmtree(directory)
print(json.dumps([job, attempts, kills]))
"""


@pytest.mark.parametrize("seed", [1, 2])
def test_killed_at_any_moment_a_resumed_writer_completes_to_exactly_all_records(place, seed):
    told = run_python(RUNS + RESUMED, place, str(seed), "150", timeout=200)
    assert (told.returncode, told.stderr) == (0, "")
    jobs, attempts, kills = json.loads(told.stdout)
    assert kills > 10  # in a minute, on a busy machine too
    assert jobs < attempts


REPLACED = """
kills = commits = version = 0
until = time.monotonic() + 60
directory = f"{root}/sets"
attempt(None, directory, {"shards": 3}, 1, 50, 0)
last = 0
while kills < int(sys.argv[3]) and time.monotonic() < until:
    version += 1
    options = {"shards": rng.choice([1, 2, 3, 5])}
    seconds = 1.2 * rng.random() * usual if version % 5 else None
    status, killed = attempt(seconds, directory, options, 1, 50, version)
    kills += killed
    found = there(directory)
    assert found in (wanted(last, 1, 50), wanted(version, 1, 50)), (version, len(found))
    if found == wanted(version, 1, 50):
        last, commits = version, commits + 1
    else:
        assert status
print(json.dumps([version, kills, commits]))
"""


def test_killed_at_any_moment_readers_see_the_old_set_or_the_new(place):
    told = run_python(RUNS + REPLACED, place, "1", "150", timeout=200)
    assert (told.returncode, told.stderr) == (0, "")
    versions, kills, commits = json.loads(told.stdout)
    assert kills > 10
    assert 0 < commits < versions


# A run ends itself in front of the n-th call that changes a file or a directory, for every n.
CRASHES = """
EVENTS = {"open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "os.truncate", "fcntl.flock"}
left = None

def count_down(event, args):
    global left
    if left is not None and event in EVENTS:
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(count_down)

def crash(at, *args):
    def ends():
        global left
        left = at
        run(*args)
    status = os.waitpid(fork(ends), 0)[1]
    assert os.waitstatus_to_exitcode(status) in (0, -9), status
    return status

def check(found, *allowed):
    assert found in allowed, (at, found and [(len(one - found), len(found - one)) for one in allowed if one])

tell = os.open(os.devnull, os.O_WRONLY)
at, status = 0, 1
crashed = sys.argv[3]
while status:
    directory = f"{root}/{at}"
    options = {"shards": 2} if at % 2 else {"max_shard_bytes": 1500}
    if crashed == "a run":
        new, old = wanted(1, 0, 20), None
        status = crash(at, directory, tell, options | {"resume": True}, 0, 20, 1)
        check(there(directory), None, new)
        crash(rng.randrange(150), directory, tell, options | {"resume": True}, 0, 20, 1)
        check(there(directory), None, new)
        assert crash(10**9, directory, tell, options | {"resume": True}, 0, 20, 1) == 0
        check(there(directory), new)
    else:
        old, new, newer = (wanted(version, 0, 20) for version in (1, 2, 3))
        assert crash(10**9, directory, tell, {"shards": 3}, 0, 20, 1) == 0
        if crashed == "a run that replaces an older version's set":
            for name in os.listdir(directory):  # whose manifest and indexes had no dot
                os.rename(f"{directory}/{name}", f"{directory}/{name.removeprefix('.')}")
        status = crash(at, directory, tell, options, 0, 20, 2)
        found = there(directory)
        check(found, old, new)
        crash(rng.randrange(100), directory, tell, options, 0, 20, 3)
        check(there(directory), found, newer)
        assert crash(10**9, directory, tell, {"shards": 3}, 0, 20, 3) == 0
        check(there(directory), newer)
    check_names(directory, options)
    shutil.rmtree(directory)
    at += 1
print(at)
"""


@pytest.mark.parametrize(
    "crashed", ["a run", "a run that replaces a set", "a run that replaces an older version's set"]
)
def test_a_crash_in_front_of_any_change_leaves_all_or_nothing(place, crashed):
    told = run_python(RUNS + CRASHES, place, "1", crashed, timeout=200)
    assert told.returncode == 0, told.stderr
    assert int(told.stdout) > 60


# A child that outlives its parent, and writes when it is told to.
ORPHAN = """
import os, sys
import feedline as fl
from feedline.write import parts

parts.SEAL_BYTES = 1
writer = fl.ShardedWriter(sys.argv[1], resume=True)
writer.write(b"own", key="own")
writer.write(b"not sealed")
child = os.fork()
if child:
    sys.stdin.readline()
else:
    try:
        named = writer.producer("a")
        named.write(b"sealed", key=1)
        named.write(b"not sealed", key=2)
        writer.write(b"of a process without a name")
        print(os.getpid(), flush=True)
        while True:
            sys.stdin.readline()
            for write in (named.write, writer.write, writer.producer("b").write):
                try:
                    write(b"from the orphan")
                    print("written", flush=True)
                except fl.WriteError as error:
                    print(error.errno, flush=True)
    finally:
        os._exit(0)
"""


def test_an_orphan_neither_holds_the_directory_nor_writes_into_the_next_run(tmp_path):
    with start_python(ORPHAN, str(tmp_path)) as parent:
        try:
            orphan = int(parent.stdout.readline())
            with pytest.raises(WriteError, match=f"process {parent.pid} "):
                ShardedWriter(tmp_path, resume=True)
            parent.kill()
            parent.wait(200)
            assert is_there(orphan)
            with ShardedWriter(tmp_path, resume=True) as writer:
                assert (writer.count, writer.last_key) == (1, "own")
                producer = writer.producer("a")
                assert (producer.count, producer.last_key) == (1, 1)
                producer.write(b"again", key=2)
                for _ in range(2):
                    parent.stdin.write("\n")
                    parent.stdin.flush()
                    assert [parent.stdout.readline() for _ in range(3)] == [f"{errno.EBUSY}\n"] * 3
        finally:
            parent.kill()
            os.kill(orphan, signal.SIGKILL)
    assert list(records.read(tmp_path)) == [b"own", b"sealed", b"again"]


# Its part is a shard as it is, so it has the very file open that is committed.
STRAGGLER = """
import os, sys
import feedline as fl

ready, go = os.pipe(), os.pipe()
with fl.ShardedWriter(sys.argv[1], max_shard_bytes=100) as writer:
    writer.write(bytes(80))
    if (child := os.fork()) == 0:
        writer.write(b"in time")
        os.write(ready[1], b"x")
        os.read(go[0], 1)
        try:
            writer.write(b"too late")
        except fl.WriteError as error:
            print(error, flush=True)
        os._exit(0)
    os.read(ready[0], 1)
os.write(go[1], b"x")
os.waitpid(child, 0)
"""


def test_what_comes_after_the_commit_is_refused_and_changes_nothing(tmp_path):
    told = run_python(STRAGGLER, str(tmp_path))
    assert "committed" in told.stdout, told.stderr
    assert list(records.read(tmp_path)) == [bytes(80), b"in time"]
    assert all(records.verify(path).ok for path in records.resolve(tmp_path))


LEAVES = """
import os, sys
import feedline as fl

with fl.ShardedWriter(sys.argv[1]) as writer:
    writer.write(b"parent")
    child = os.fork()
    if child == 0:
        writer.write(b"child")
    else:
        os.waitpid(child, 0)
        assert not [n for n in os.listdir(sys.argv[1]) if not n.startswith(".")]
        writer.write(b"parent, still")
if child == 0:
    del writer
    os._exit(0)
"""


def test_a_forked_child_that_leaves_the_block_commits_nothing(tmp_path):
    told = run_python(LEAVES, str(tmp_path))
    assert told.returncode == 0, told.stderr
    assert list(records.read(tmp_path)) == [b"parent", b"parent, still", b"child"]


# Each child is killed in the middle, and the next one takes its name over, in the same run.
RETRIED = """
import os, signal, sys
import feedline as fl
from feedline.write import parts

parts.SEAL_BYTES = 100
with fl.ShardedWriter(sys.argv[1], shards=2) as writer:
    for attempt in range(6):
        if (child := os.fork()) == 0:
            producer = writer.producer("a")
            for i in range(producer.count, 100):
                producer.write(b"%d" % i, key=i)
                if i == 20 * (attempt + 1):
                    os.kill(os.getpid(), signal.SIGKILL)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
    assert status == 0, status
"""


def test_a_producer_that_was_killed_goes_on_in_another_process_of_the_run(tmp_path):
    told = run_python(RETRIED, str(tmp_path))
    assert told.returncode == 0, told.stderr
    assert list(records.read(tmp_path)) == [b"%d" % i for i in range(100)]


TWICE = """
import os, sys
import feedline as fl

with fl.ShardedWriter(sys.argv[1]) as writer:
    producer = writer.producer("a")
    producer.write(b"parent")
    for _ in range(2):
        if (child := os.fork()) == 0:
            try:
                producer.write(b"child")
                os._exit(0)
            except fl.UsageError as error:
                print(error, flush=True)
                os._exit(5)
        print(os.waitpid(child, 0)[1] >> 8, flush=True)
        producer.close()
"""


def test_a_producer_is_in_one_process_at_a_time(tmp_path):
    told = run_python(TWICE, str(tmp_path)).stdout.splitlines()
    assert told[0].startswith("producer('a') is written by process")
    assert told[-2:] == ["5", "0"]
    assert list(records.read(tmp_path)) == [b"parent", b"child"]


INTERRUPTED = """
import signal, sys
import feedline as fl
from feedline.write import parts

parts.SEAL_BYTES = 3000
writer, interrupts = fl.ShardedWriter(sys.argv[1], max_shard_bytes=20_000), 0
print("ready", flush=True)
while writer.count < 30_000:
    try:
        for i in range(writer.count, 30_000):
            writer.write(b"%d" % i, key=i)
    except KeyboardInterrupt:
        interrupts += 1
        assert writer.last_key == (writer.count - 1 if writer.count else None)
signal.signal(signal.SIGINT, signal.SIG_IGN)
writer.close()
print(interrupts)
"""


def test_ctrl_c_at_any_moment_leaves_the_count_and_the_key_true(tmp_path):
    with start_python(INTERRUPTED, str(tmp_path)) as program:
        try:
            assert program.stdout.readline() == "ready\n"
            for _ in range(60):
                time.sleep(0.02)
                if program.poll() is not None:
                    break
                program.send_signal(signal.SIGINT)
            told, errors = program.communicate(timeout=200)
        finally:
            program.kill()
    assert told, errors
    assert int(told) > 5
    assert list(records.read(tmp_path)) == [b"%d" % i for i in range(30_000)]


# Full disks


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 1 MB."""
    place = tmp_path / "small"
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], capture_output=True, text=True
    )
    if made.returncode:
        pytest.skip(f"a small file system needs root: {made.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


FULL = """
import multiprocessing, os, resource, signal, sys
import feedline as fl

def fill(writer, name, refused):
    producer = writer.producer(name) if name else writer
    try:
        while True:
            producer.write(bytes(10_000))
    except fl.WriteError as error:
        refused.put(error.errno)
    try:
        producer.write(bytes(300_000))
    except fl.WriteError as error:
        refused.put(error.errno)

if __name__ == "__main__":
    if sys.argv[2] == "limit":
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
    fork = multiprocessing.get_context("fork")
    refused = fork.SimpleQueue()
    try:
        with fl.ShardedWriter(sys.argv[1], shards=2) as writer:
            names = ["a", "b", None]
            children = [fork.Process(target=fill, args=(writer, name, refused)) for name in names]
            for child in children:
                child.start()
            for child in children:
                child.join(200)
                assert child.exitcode == 0
            fill(writer, None, refused)
            writer.write(bytes(300_000))
    except fl.WriteError as error:
        print(error.errno, [refused.get() for _ in range(8)], os.listdir(sys.argv[1]))
"""


def check_full(directory, kind, number):
    told = run_python(FULL, str(directory), kind)
    assert told.stdout == f"{number} {[number] * 8} []\n", told.stderr


def test_a_full_disk_is_a_write_error_in_every_producer_and_leaves_nothing(small_disk):
    check_full(small_disk / "set", "disk", errno.ENOSPC)
    assert list((small_disk / "set").iterdir()) == []


def test_a_limit_of_file_sizes_is_a_write_error_in_every_producer_and_leaves_nothing(tmp_path):
    check_full(tmp_path / "set", "limit", errno.EFBIG)


def test_a_disk_that_is_full_at_the_commit_shows_nothing_and_the_run_can_be_resumed(small_disk):
    wanted = [bytes([n]) * 20_000 for n in range(35)]  # fits once, and not twice
    writer = ShardedWriter(small_disk / "set", shards=3)
    for n, record in enumerate(wanted):
        writer.write(record, key=n)
    with pytest.raises(WriteError, match="No space left") as caught:
        writer.close()
    assert caught.value.errno == errno.ENOSPC
    assert "resume=True" in str(caught.value)
    assert not [name for name in os.listdir(small_disk / "set") if not name.startswith(".")]
    subprocess.run(["mount", "-o", "remount,size=4m", str(small_disk)], check=True)
    with ShardedWriter(small_disk / "set", shards=3, resume=True) as writer:
        assert (writer.count, writer.last_key) == (35, 34)
    assert list(records.read(small_disk / "set")) == wanted


def test_sets_that_follow_each_other_are_never_seen_in_part(tmp_path):
    names = {n: [f"data-{i:05}-of-{n:05}.tfrecord" for i in range(n)] for n in (2, 3)}
    seen, done = set(), threading.Event()

    def look():
        while not done.is_set():
            paths = records.resolve(tmp_path)
            number = len(paths)
            assert [os.path.basename(path) for path in paths] == names[number]
            seen.add(number)

    def write(shards):
        with ShardedWriter(tmp_path, shards=shards) as writer:
            writer.write(b"one")

    write(2)
    with ThreadPoolExecutor(1) as pool:
        looking = pool.submit(look)
        try:
            for n in range(25):
                write(2 + (n + 1) % 2)
        finally:
            done.set()
        looking.result(30)
    assert seen == {2, 3}

"""Runs that share a cache and are killed, stopped, interrupted and forked, and disks that are full or closed.

Each gets what an uncached run gets, together they compute each element once, and nothing is left behind.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from itertools import islice
from pathlib import Path

import pytest

from feedline import CacheError, Dataset
from feedline.cache import filling
from tests.processes import all_processes, comes_true, run_python, start_python


@pytest.fixture
def place(tmp_path):
    """In memory, if that can be: a kill is the same there, and nothing waits for a disk."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else tmp_path) as path:
        yield Path(path)


# Runs are forks of this program, so that many take seconds. Parts are small: a millisecond for each element,
# and about twenty for a part. Each element that is computed is a line of the log, with who computed it.
RUNS = """
import gc, json, os, random, signal, sys, threading, time, warnings
import feedline as fl
from feedline.cache import filling, store
from feedline.cache.plan import Manifest, Plan, decode
from feedline.run import here

warnings.filterwarnings("ignore", ".*use of fork", DeprecationWarning)  # runs have threads, and are meant to
filling.PART_SECONDS = 0.02
here.SECONDS = 0.01  # blocks of a part
place, kind, rng = sys.argv[1], sys.argv[2], random.Random(int(sys.argv[3]))
N = 300
RUNS = 2 if "parallel" in kind else 4  # and two workers for each

def compute(x):
    with open(os.environ["LOG"], "ab", buffering=0) as log:
        log.write(b"%d %d\\n" % (x, os.getpid()))
    time.sleep(0.001)
    return x * x

def numbers():
    yield from range(N)

def pipeline():
    source = {
        "indexed": lambda: fl.Dataset.range(N),
        "filtered": lambda: fl.Dataset.range(N).filter(lambda x: x >= 0),
        "generated": lambda: fl.Dataset.from_generator(numbers),
        "parallel": lambda: fl.Dataset.range(N),
        "filtered, parallel": lambda: fl.Dataset.range(N).filter(lambda x: x >= 0),
        "shuffled": lambda: fl.Dataset.range(N).shuffle(),
        "shuffled as they come": lambda: fl.Dataset.range(N).shuffle(50),
    }[kind]()
    return source.map(compute, num_parallel_calls=2 if "parallel" in kind else None)

def cached(location):
    return pipeline().cache(location)

def fork(target, *args):
    pid = os.fork()
    if pid == 0:
        try:
            target(*args)
            os._exit(0)
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(4)
    return pid

def held():
    return threading.active_count(), len(os.listdir("/proc/self/fd"))

def tell(name, value):
    with open(f"{place}/{name}.new", "w") as file:
        json.dump(value, file)
    os.rename(f"{place}/{name}.new", f"{place}/{name}")

def told(name):
    with open(f"{place}/{name}") as file:
        return json.load(file)

def run(location, name):
    before = held()
    tell(name, [int(x) for x in cached(location)])
    if "parallel" not in kind:  # whose workers wait for the next iteration
        until = time.monotonic() + 200
        while held() != before and time.monotonic() < until:
            gc.collect()
            time.sleep(0.01)
        assert held() == before, (held(), before)

def is_done(pid):
    'Not if it was killed.'
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code in (0, -9), code
    return code == 0

def entry_of(location):
    [key] = [name for name in os.listdir(location)]
    return f"{location}/{key}"

def document(location, kind):
    with open(f"{entry_of(location)}/items/{kind.__name__.lower()}", "rb") as file:
        return decode(file.read(), kind)

def check_clean(location):
    for folder in ("partial", "claims", "users"):
        left = os.listdir(f"{entry_of(location)}/{folder}")
        assert not left, (folder, left)

def computed():
    with open(os.environ["LOG"]) as log:
        return [int(line.split()[0]) for line in log]

squares = [x * x for x in range(N)]
open(os.environ["LOG"], "w").close()
"""

KILLED = """
kills, most, job = 0, int(sys.argv[4]), 0
begin = time.monotonic()
while job == 0 or ("parallel" not in kind and time.monotonic() < begin + 2):
    job += 1
    location = f"{place}/cache-{job}"
    open(os.environ["LOG"], "w").close()
    running = {fork(run, location, str(slot)): str(slot) for slot in range(RUNS)}
    killed = 0
    while running:
        if killed < most:
            time.sleep(rng.random() * (0.5 if "parallel" in kind else 0.06))
            pid = rng.choice(list(running))
            os.kill(pid, signal.SIGKILL)
        else:
            pid = next(iter(running))
        slot = running.pop(pid)
        if not is_done(pid):
            killed += 1
            running[fork(run, location, slot)] = slot
    outputs = [told(str(slot)) for slot in range(RUNS)]
    assert all(output == outputs[0] for output in outputs)
    assert (sorted(outputs[0]) if "shuffled" in kind else outputs[0]) == squares
    rows = document(location, Manifest).rows
    # Of a streamed part, that is as long as it may be computed before it is published.
    part = document(location, Plan).part_rows or max(*rows, int((0.02 + here.SECONDS) / 0.001) + 1)
    count = len(computed())
    assert set(computed()) == set(range(N))
    assert count <= N + killed * part, (count, killed, part)
    assert len(rows) > 5, rows
    check_clean(location)
    kills += killed
print(json.dumps([job, kills]))
"""


def run_program(code, place, kind, *arguments, **how):
    environment = {**os.environ, "LOG": f"{place}/log"}
    told = run_python(RUNS + code, str(place), kind, "1", *arguments, env=environment, **how)
    assert (told.returncode, told.stderr) == (0, ""), told.stderr
    assert comes_true(lambda: not processes_of(place)), "it left processes behind"
    return told.stdout


def processes_of(place):
    """Those that were started with the log there."""
    wanted = f"LOG={place}/".encode()
    found = []
    for pid in all_processes():
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        if wanted in environment:
            found.append(pid)
    return found


KINDS = ["indexed", "filtered", "generated", "shuffled", "shuffled as they come"]


@pytest.mark.parametrize("kind", KINDS)
def test_killed_at_any_moment_four_runs_get_the_same_and_compute_one_part_more_for_each_kill(place, kind):
    jobs, kills = json.loads(run_program(KILLED, place, kind, "10"))
    assert kills >= 5  # those that hit a run that was not done
    assert jobs >= 1


@pytest.mark.parametrize("kind", ["parallel", "filtered, parallel"])
def test_killed_at_any_moment_runs_with_workers_get_the_same(place, kind):
    _, kills = json.loads(run_program(KILLED, place, kind, "4", timeout=200))
    assert kills >= 1


TOGETHER = """
location = f"{place}/cache"
pids = [fork(run, location, str(slot)) for slot in range(RUNS)]
assert all(is_done(pid) for pid in pids)
outputs = [told(str(slot)) for slot in range(RUNS)]
assert all(output == outputs[0] for output in outputs)
assert (sorted(outputs[0]) if "shuffled" in kind else outputs[0]) == squares
assert sorted(computed()) == list(range(N))
check_clean(location)
# One that comes when all is done computes nothing.
assert is_done(fork(run, location, "late"))
assert told("late") == outputs[0] and len(computed()) == N
"""


@pytest.mark.parametrize("kind", [*KINDS, "parallel", "filtered, parallel"])
def test_four_runs_from_a_cold_start_compute_each_element_once(place, kind):
    run_program(TOGETHER, place, kind)


# The first run is stopped while it computes, and goes on when the others are done.
STOPPED = """
store.BEAT, store.SILENCE = 0.1, 4  # none but the stopped run is silent for so long, on a busy machine either
for turn in range(2):
    location = f"{place}/cache-{turn}"
    open(os.environ["LOG"], "w").close()
    first = fork(run, location, "first")
    while not computed():
        time.sleep(0.001)
    time.sleep(rng.random() * 0.1)
    os.kill(first, signal.SIGSTOP)
    others = [fork(run, location, str(slot)) for slot in range(2)]
    assert all(is_done(pid) for pid in others)
    os.kill(first, signal.SIGCONT)
    assert is_done(first)
    assert told("0") == told("1") == told("first") == squares
    part = document(location, Plan).part_rows or max(*document(location, Manifest).rows, 31)
    assert len(computed()) <= N + 2 * part, (len(computed()), part)
    check_clean(location)
"""


@pytest.mark.parametrize("kind", ["indexed", "filtered"])
def test_a_run_that_is_stopped_is_overtaken_and_goes_on(place, kind):
    run_program(STOPPED, place, kind)


# The leader takes one element, and sleeps until the other is done.
ASLEEP = """
filling._PATIENCE = 5
location = f"{place}/cache"
rows = iter(cached(location))
got = [int(next(rows))]
begin = time.monotonic()
assert is_done(fork(run, location, "other"))
assert told("other") == squares
print(time.monotonic() - begin)
got += [int(x) for x in rows]
assert got == squares
assert sorted(computed()) == list(range(N))
"""


@pytest.mark.parametrize("kind", ["indexed", "filtered"])
def test_a_consumer_that_sleeps_holds_nobody_up(place, kind):
    seconds = float(run_program(ASLEEP, place, kind))
    assert seconds < 50  # one wait of 5 s for the leader, and 0.3 s of work; not a wait for each of 15 parts


# One computes while others come, stop early, fail in their loops, and go on from states of others.
COMING_AND_GOING = """
location = f"{place}/cache"

def stops(name, at):
    for number, x in enumerate(cached(location)):
        assert int(x) == number * number
        if number == at:
            break
    tell(name, at)

def fails(at):
    try:
        for number, x in enumerate(cached(location)):
            if number == at:
                raise ZeroDivisionError
    except ZeroDivisionError:
        pass

def leaves_state(name, at):
    rows = iter(cached(location))
    for _ in range(at):
        next(rows)
    tell(name, rows.state_dict())

def goes_on(state, name):
    rows = iter(cached(location))
    rows.load_state_dict(told(state))
    tell(name, [int(x) for x in rows])

pids = [fork(run, location, "0"), fork(stops, "1", 20), fork(fails, 50), fork(leaves_state, "state", 30)]
time.sleep(0.1)
pids += [fork(stops, "2", 100), fork(run, location, "middle")]
assert is_done(pids.pop(3))
pids.append(fork(goes_on, "state", "rest"))  # while it is filled
time.sleep(0.1)
pids += [fork(run, location, "end")]
assert all(is_done(pid) for pid in pids)
assert told("0") == told("middle") == told("end") == squares
assert told("rest") == squares[30:]
assert sorted(computed()) == list(range(N))
check_clean(location)
assert is_done(fork(goes_on, "state", "rest of the complete one"))
assert told("rest of the complete one") == squares[30:]
assert sorted(computed()) == list(range(N))
import shutil
shutil.rmtree(location)
assert is_done(fork(goes_on, "state", "rest of the removed one"))
assert told("rest of the removed one") == squares[30:]
"""


@pytest.mark.parametrize("kind", ["indexed", "filtered"])
def test_runs_come_and_go_and_resume_each_other(place, kind):
    run_program(COMING_AND_GOING, place, kind)


# An unseeded order is that of the first run. A state goes on in its own order, also when the entry has
# another one by now.
STATES_OF_AN_ORDER = """
import shutil
location = f"{place}/cache"
rows = iter(cached(location))
first = [int(next(rows)) for _ in range(40)]
tell("state", rows.state_dict())
rest = [int(x) for x in rows]
assert sorted(first + rest) == squares
del rows

def goes_on(name):
    rows = iter(cached(location))
    rows.load_state_dict(told("state"))
    tell(name, [int(x) for x in rows])

assert is_done(fork(goes_on, "complete")) and told("complete") == rest
shutil.rmtree(location)
assert is_done(fork(run, location, "another"))
assert sorted(told("another")) == squares and told("another") != first + rest
assert is_done(fork(goes_on, "after another")) and told("after another") == rest
"""


@pytest.mark.parametrize("kind", ["shuffled", "shuffled as they come"])
def test_a_state_goes_on_in_its_own_order_whatever_the_entry_has(place, kind):
    run_program(STATES_OF_AN_ORDER, place, kind)


# Items are removed, cut and swapped all the time while four runs read them and make them again. As new files:
# bytes that change in a file that is mapped change for its readers.
DAMAGED = """
import glob, warnings
warnings.simplefilter("ignore")  # each run warns of what it finds
location = f"{place}/cache"
until = time.monotonic() + 100

def reads(name):
    while not os.path.exists(f"{place}/over"):
        assert [int(x) for x in cached(location)] == squares
        tell(name, True)

def damage():
    items = f"{entry_of(location)}/items"
    names = os.listdir(items)
    for name in rng.sample(names, rng.choice([1, 1, 2, 3])):
        with open(f"{items}/{name}", "rb") as file:
            data = file.read()
        with open(f"{items}/{rng.choice(names)}", "rb") as file:
            other = file.read()
        os.unlink(f"{items}/{name}")
        damaged = rng.choice([None, data[: rng.randrange(len(data))], other])
        if damaged is not None:
            with open(f"{items}/{name}.new", "wb") as file:
                file.write(damaged)
            try:
                os.link(f"{items}/{name}.new", f"{items}/{name}")
            finally:
                os.unlink(f"{items}/{name}.new")

pids = [fork(reads, str(slot)) for slot in range(4)]
damages = 0
while time.monotonic() < until and not (damages > 60 and len(glob.glob(f"{place}/[0-3]")) == 4):
    time.sleep(rng.random() * 0.03)
    try:
        damage()
        damages += 1
    except (FileNotFoundError, FileExistsError, ValueError):
        pass  # another one was first, or there are too few
tell("over", True)
assert all(is_done(pid) for pid in pids)
assert all(told(str(slot)) for slot in range(4))
print(damages)
warnings.simplefilter("default")
"""


@pytest.mark.parametrize("kind", ["indexed", "filtered", "generated"])
def test_what_is_damaged_while_runs_read_it_is_never_given(place, kind):
    assert int(run_program(DAMAGED, place, kind)) > 10


# Ctrl-C again and again, while another run needs the same parts.
INTERRUPTED = """
location = f"{place}/cache"
got, rows, interrupts = [], None, 0
print("ready", flush=True)
while len(got) < N:
    try:
        if rows is None:
            rows = iter(cached(location))
        while len(got) < N:
            got.append(int(next(rows)))
    except KeyboardInterrupt:
        interrupts += 1
signal.signal(signal.SIGINT, signal.SIG_IGN)
assert got == squares
print(interrupts)
assert is_done(fork(run, location, "other")) and told("other") == squares
"""


@pytest.mark.parametrize("kind", ["indexed", "filtered"])
def test_ctrl_c_at_any_moment_loses_nothing_and_holds_nothing(place, kind):
    environment = {**os.environ, "LOG": f"{place}/log"}
    with start_python(RUNS + INTERRUPTED, str(place), kind, "1", env=environment) as program:
        try:
            assert program.stdout.readline() == "ready\n", program.stderr.read()
            for n in range(60):
                time.sleep(0.01 + n % 7 * 0.003)
                if program.poll() is not None:
                    break
                program.send_signal(signal.SIGINT)
            told, errors = program.communicate(timeout=200)
        finally:
            program.kill()
    assert program.returncode == 0, errors
    assert int(told) > 3
    [entry] = (place / "cache").iterdir()
    assert list((entry / "claims").iterdir()) == []
    assert list((entry / "partial").iterdir()) == []


# A child that is forked in the middle reads the same dataset, and the iterator of the parent goes on.
FORKED = """
import multiprocessing
location = f"{place}/cache"
dataset = cached(location)

def child(name):
    tell(name, [int(x) for x in dataset])

context = multiprocessing.get_context("fork")
rows = iter(dataset)
got = [int(next(rows)) for _ in range(30)]
children = [context.Process(target=child, args=[name]) for name in ("0", "1")]
for one in children:
    one.start()
got += [int(x) for x in rows]
for one in children:
    one.join(200)
    assert one.exitcode == 0
assert got == told("0") == told("1") == squares
assert sorted(computed()) == list(range(N))
# The entry is still the parent's.
[user] = fl.Cache(location).entries()[0].users
assert str(os.getpid()) in user, user
try:
    fl.Cache(location).remove(os.path.basename(entry_of(location)))
    raise AssertionError("removed")
except fl.CacheError as error:
    assert "in use" in str(error), error
del rows, dataset
gc.collect()
assert is_done(fork(run, location, "late"))
check_clean(location)
"""


@pytest.mark.parametrize("kind", ["indexed", "filtered"])
def test_a_forked_child_reads_the_same_and_takes_nothing_from_its_parent(place, kind):
    run_program(FORKED, place, kind)


# A thread opens entries all the time, so that a fork finds it anywhere; the child must not wait for it.
FORKED_AMONG_THREADS = """
import itertools
stop = False
shared = fl.Dataset.range(100).cache(f"{place}/shared")

def work():
    for n in itertools.count():
        if stop:
            break
        shared._node.handle._opened = None  # opened anew
        assert len(list(shared)) == 100

thread = threading.Thread(target=work)
thread.start()

def child():
    signal.alarm(200)
    assert len(list(shared)) == 100

try:
    for _ in range(30):
        assert is_done(fork(child))
finally:
    stop = True
    thread.join()
"""


def test_a_fork_while_another_thread_opens_the_entry_leaves_a_child_that_can(place):
    run_program(FORKED_AMONG_THREADS, place, "indexed")


# In one process


@pytest.fixture(params=["indexed", "streamed"])
def pipeline(request, monkeypatch):
    """A function that makes a pipeline of 100 numbers in several parts; `calls` are those computed."""
    monkeypatch.setattr(filling, "PART_SECONDS", 0.005)

    def compute(x):
        make.calls.append(int(x))
        time.sleep(0.0005)
        return x

    def make(location):
        source = Dataset.range(100)
        if request.param == "streamed":
            source = source.filter(lambda x: True)
        return source.map(compute).cache(location, version="1")

    make.calls = []
    return make


def ints(rows):
    return [int(x) for x in rows]


@pytest.mark.parametrize("steps", [(1, 1), (1, 7), (30, 1), (3, 2)])
def test_iterators_that_are_moved_in_turn_do_not_wait_for_each_other(pipeline, place, monkeypatch, steps):
    monkeypatch.setattr(filling, "_PATIENCE", 0.1)
    dataset = pipeline(place)
    iterators, got = [iter(dataset), iter(pipeline(place))], [[], []]
    while any(len(one) < 100 for one in got):
        for rows, one, step in zip(iterators, got, steps, strict=True):
            one += ints(islice(rows, step))
    assert got == [list(range(100))] * 2
    assert sorted(pipeline.calls) == list(range(100))


def test_a_dataset_meets_itself(pipeline, place):
    dataset = pipeline(place)
    assert [(int(x), int(y)) for x, y in Dataset.zip(dataset, dataset)] == [(x, x) for x in range(100)]
    assert ints(dataset.concatenate(dataset)) == 2 * list(range(100))
    assert ints(dataset.repeat(3)) == 3 * list(range(100))
    assert ints(dataset.skip(40).take(20)) == list(range(40, 60))
    assert sorted(pipeline.calls) == list(range(100))


def test_only_what_is_taken_and_little_more_is_computed(pipeline, place):
    assert ints(pipeline(place).take(10)) == list(range(10))
    assert len(pipeline.calls) < 100
    assert ints(pipeline(place).skip(90)) == list(range(90, 100))
    assert ints(pipeline(place)) == list(range(100))
    assert sorted(pipeline.calls) == list(range(100))


def test_threads_of_one_dataset_share_the_work(pipeline, place):
    dataset, results = pipeline(place), {}
    threads = [
        threading.Thread(target=lambda n=n: results.update({n: ints(dataset)}), daemon=True) for n in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(200)
    assert results == {n: list(range(100)) for n in range(6)}
    assert sorted(pipeline.calls) == list(range(100))


IN_WORKERS = """
parts = fl.Dataset.range(4).interleave(
    lambda n: fl.Dataset.range(50).map(compute).cache(f"{place}/cache"), cycle_length=4, num_parallel_calls=2
)
for _ in range(2):
    got = sorted(int(x) for x in parts)
    assert got == sorted(4 * squares[:50]), len(got)
assert sorted(computed()) == list(range(50))
"""


def test_datasets_that_are_interleaved_by_workers_share_an_entry(place):
    run_program(IN_WORKERS, place, "indexed", timeout=200)


def test_an_entry_that_is_removed_in_the_middle_is_gone_on_without(pipeline, place):
    rows = iter(pipeline(place / "cache"))
    got = ints(islice(rows, 10))
    shutil.rmtree(place / "cache")
    with pytest.warns(RuntimeWarning, match="goes on without this cache") as told:
        got += ints(rows)
    assert got == list(range(100))
    assert len(told) == 1
    assert sorted(pipeline.calls) == list(range(100))


def test_a_generator_is_not_run_again_when_the_cache_is_given_up(place):
    begun = []

    def numbers():
        begun.append(1)
        yield from range(5000)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(filling, "PART_BYTES", 4096)
        rows = iter(Dataset.from_generator(numbers).cache(place / "cache", version="1"))
        begun.clear()
        got = ints(islice(rows, 10))
        shutil.rmtree(place / "cache")
        with pytest.warns(RuntimeWarning, match="goes on without"):
            got += ints(rows)
    assert got == list(range(5000))
    assert len(begun) == 1


def test_elements_by_index_keep_their_order_when_the_cache_is_given_up(place):
    def fail(x):
        if x == 50:
            raise ZeroDivisionError
        return x

    def make(location):
        return Dataset.range(100).shuffle().map(fail).cache(location, version="1")

    def events(dataset):
        return [outcome(dataset, n) for n in range(100)]

    def outcome(dataset, n):
        try:
            return int(dataset[n])
        except ZeroDivisionError:
            return 50

    order = events(make(place / "cache"))
    assert sorted(order) == list(range(100))
    other = make(place / "cache")
    assert events(other) == order
    third = make(place / "cache")
    outcome(third, 0)
    shutil.rmtree(place / "cache")
    third._node.handle._opened.shared._held.clear()
    with pytest.warns(RuntimeWarning, match="goes on without"):
        assert events(third) == order


# Disks


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 400 kB."""
    disk = tmp_path / "small"
    disk.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(disk)], capture_output=True, text=True
    )
    if made.returncode:
        pytest.skip(f"a small file system needs root: {made.stderr.strip()}")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def rows_of_a_kilobyte(location, is_streamed):
    """1,000 of them."""
    source = Dataset.range(1000)
    if is_streamed:
        source = source.filter(lambda x: True)
    return source.map(lambda x: x.repeat(128)).cache(location)


@pytest.fixture(params=[False, True], ids=["indexed", "streamed"])
def is_streamed(request, monkeypatch):
    monkeypatch.setattr(filling, "PART_BYTES", 100_000)
    return request.param


def firsts(rows):
    return [int(row[0]) for row in rows]


def test_a_disk_that_is_full_is_one_warning_and_more_space_completes_the_entry(small_disk, is_streamed):
    dataset = rows_of_a_kilobyte(small_disk, is_streamed)
    with pytest.warns(RuntimeWarning, match="No space left on device") as told:
        assert firsts(dataset.repeat(2)) == 2 * list(range(1000))
    assert len(told) == 1
    del dataset
    [entry] = small_disk.iterdir()
    assert list((entry / "partial").iterdir()) == []
    assert list((entry / "claims").iterdir()) == []
    assert len(list((entry / "items").iterdir())) > 2
    subprocess.run(["mount", "-o", "remount,size=8m", str(small_disk)], check=True)
    assert firsts(rows_of_a_kilobyte(small_disk, is_streamed)) == list(range(1000))
    assert (entry / "items" / "manifest").exists()


def test_a_disk_without_any_space_is_one_warning(small_disk, is_streamed):
    with pytest.raises(OSError, match="No space left"):
        (small_disk / "all").write_bytes(bytes(1 << 20))
    with pytest.warns(RuntimeWarning, match="No space left on device") as told:
        assert firsts(rows_of_a_kilobyte(small_disk / "cache", is_streamed)) == list(range(1000))
    assert len(told) == 1


LIMITED = """
import resource, signal, sys, warnings
import feedline as fl
from feedline.cache import filling

filling.PART_BYTES = 100_000
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
warnings.simplefilter("always")
with warnings.catch_warnings(record=True) as told:
    rows = [int(row[0]) for row in fl.Dataset.range(1000).map(lambda x: x.repeat(128)).cache(sys.argv[1])]
assert rows == list(range(1000))
print(*(one.message for one in told))
"""


def test_a_limit_of_file_sizes_is_one_warning(tmp_path):
    told = run_python(LIMITED, str(tmp_path))
    assert told.stdout.count("File too large") == 1, told.stderr
    assert told.stdout.count("goes on without this cache") == 1
    [entry] = tmp_path.iterdir()
    assert list((entry / "partial").iterdir()) == []


# Another user, if this one may become one. What is read before that is read, because the other cannot.
STRANGER = """
import os, sys, warnings
import feedline as fl
from feedline.cache import filling

list(fl.Dataset.range(10).map(lambda x: x).filter(lambda x: True).cache(sys.argv[2]))
if sys.argv[1] != "itself":
    os.setgid(int(sys.argv[1]))
    os.setuid(int(sys.argv[1]))
warnings.simplefilter("always")
with warnings.catch_warnings(record=True) as told:
    try:
        dataset = fl.Dataset.range(500)
        if sys.argv[4] == "streamed":
            dataset = dataset.filter(lambda x: x >= 0)
        print([int(x) for x in dataset.cache(sys.argv[3])] == list(range(500)))
    except fl.CacheError as error:
        print(error)
print(len(told), *(one.message for one in told), sep="\\n")
"""


def as_stranger(tmp_path, location, kind, uid="65534"):
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    told = run_python(STRANGER, uid, str(tmp_path / "warm"), str(location), kind)
    assert told.returncode == 0, told.stderr
    first, count, *warned = told.stdout.split("\n", 2)
    return first, int(count) if count.isdigit() else told.stdout, warned


def fill(location, kind):
    """The entry that STRANGER reads: its functions have another name for the same."""
    told = run_python(STRANGER, "itself", str(location) + "-warm", str(location), kind)
    assert told.stdout.startswith("True\n0"), (told.stdout, told.stderr)


def snapshot(location):
    """All files there and when they were changed."""
    return {path: path.stat().st_mtime_ns for path in sorted(Path(location).rglob("*"))}


@pytest.fixture
def open_path(tmp_path):
    """A directory that other users can come to."""
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    with tempfile.TemporaryDirectory() as path:
        os.chmod(path, 0o755)
        (Path(path) / "warm").mkdir(mode=0o777)
        (Path(path) / "warm").chmod(0o777)
        yield Path(path)


@pytest.mark.parametrize("kind", ["indexed", "streamed"])
def test_a_complete_entry_that_may_only_be_read_is_read(open_path, kind):
    fill(open_path / "cache", kind)
    before = snapshot(open_path / "cache")
    assert as_stranger(open_path, open_path / "cache", kind)[:2] == ("True", 0)
    assert snapshot(open_path / "cache") == before


@pytest.mark.parametrize("kind", ["indexed", "streamed"])
def test_a_location_that_may_only_be_read_and_has_nothing_is_one_warning(open_path, kind):
    (open_path / "cache").mkdir(mode=0o755)
    first, count, [warned] = as_stranger(open_path, open_path / "cache", kind)
    assert (first, count) == ("True", 1)
    assert "Permission denied" in warned
    assert list((open_path / "cache").iterdir()) == []


def test_a_file_system_that_is_read_only(small_disk, is_streamed):
    assert len(firsts(rows_of_a_kilobyte(small_disk, is_streamed).take(100))) == 100
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.warns(RuntimeWarning, match="Read-only file system") as told:
        assert firsts(rows_of_a_kilobyte(small_disk, is_streamed)) == list(range(1000))
    assert len(told) == 1
    subprocess.run(["mount", "-o", "remount,rw,size=8m", str(small_disk)], check=True)
    assert firsts(rows_of_a_kilobyte(small_disk, is_streamed)) == list(range(1000))
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    assert firsts(rows_of_a_kilobyte(small_disk, is_streamed)) == list(range(1000))


@pytest.mark.parametrize("kind", ["indexed", "streamed"])
def test_nothing_is_written_to_the_open_directory_of_another_user(open_path, kind):
    location = open_path / "cache"
    location.mkdir()
    location.chmod(0o777)
    message = as_stranger(open_path, location, kind)[0]
    assert "another user's (0)" in message
    assert list(location.iterdir()) == []


@pytest.mark.parametrize("kind", ["indexed", "streamed"])
def test_a_complete_entry_in_the_open_directory_of_another_user_is_read(open_path, kind):
    location = open_path / "cache"
    fill(location, kind)
    for path in [location, *location.rglob("*")]:
        path.chmod(0o777)
    before = snapshot(location)
    assert as_stranger(open_path, location, kind)[:2] == ("True", 0)
    assert snapshot(location) == before
    # What is damaged there stays as it is, too.
    part = next(location.glob("*/items/part-00000000"))
    part.write_bytes(b"damaged")
    before = snapshot(location)
    told = run_python(STRANGER, "65534", str(open_path / "warm"), str(location), kind)
    assert "another user's (0)" in told.stdout
    assert snapshot(location) == before


def test_locations(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(CacheError, match="this is a file"):
        ints(Dataset.range(5).cache(tmp_path / "file"))
    with pytest.warns(RuntimeWarning, match="Not a directory"):
        assert ints(Dataset.range(5).cache(tmp_path / "file" / "cache")) == list(range(5))
    assert ints(Dataset.range(5).cache(tmp_path / "made" / "on" / "demand")) == list(range(5))
    assert (tmp_path / "made" / "on" / "demand").is_dir()
    assert ints(Dataset.range(5).cache(os.fsencode(tmp_path / "bytes"))) == list(range(5))


def test_a_relative_location_stays_where_it_is(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    dataset = Dataset.range(5).cache("cache")
    monkeypatch.chdir("elsewhere")
    assert ints(dataset) == list(range(5))
    assert (tmp_path / "cache").is_dir()
    assert list((tmp_path / "elsewhere").iterdir()) == []


# Limits

# Hundreds of parts with few descriptors, and more bytes than the process may have memory of its own.
LARGE = """
import os, re, resource, sys
import numpy as np
import feedline as fl
from feedline.cache import filling

filling.PART_BYTES = 200_000
filling.PART_SECONDS = 10
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
ROWS = 128_000

def own():
    'Memory that is no file, in bytes.'
    with open("/proc/self/status") as status:
        return int(re.search(r"RssAnon:\\s+(\\d+)", status.read())[1]) << 10

def repeated(x):
    return np.outer(x % 251, np.ones(1000)).astype(np.uint8)

def rows(location):
    source = fl.Dataset.range(ROWS)
    if sys.argv[2] == "streamed":
        source = source.filter(lambda x: x >= 0)
    return source.batch(64).map(repeated).unbatch().cache(location)

most = 0
for turn in range(2):
    for n, row in enumerate(rows(sys.argv[1])):
        assert row[0] == row[-1] == n % 251
        if n == 1000:
            begin = own()
        if n > 1000 and n % 1000 == 0:
            most = max(most, own() - begin)
    assert n + 1 == ROWS
[entry] = os.listdir(sys.argv[1])
print(len(os.listdir(f"{sys.argv[1]}/{entry}/items")), most)
"""


@pytest.mark.parametrize("kind", ["indexed", "streamed"])
def test_many_parts_need_few_descriptors_and_little_memory(place, kind):
    told = run_python(LARGE, str(place), kind)
    assert told.returncode == 0, told.stderr
    items, most = map(int, told.stdout.split())
    assert items > 400
    assert most < 20 << 20  # of 128 MB

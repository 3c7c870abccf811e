"""mode="whole": every client gets what the pipeline gives without a service, and clients share the work."""

from __future__ import annotations

import gc
import json
import os
import sys
import threading
import time
from itertools import islice

import numpy as np
import pytest

from feedline import Dataset, FixedLenFeature, ServiceError, UsageError, VarLenFeature, WorkerError
from feedline.run import pickling
from feedline.testing import Failed, assert_same, check_errors, check_laws
from tests.processes import comes_true, interrupt_soon, is_there, memory_of, start_python, stop
from tests.serve.serving import lines_of, run_clients


def described(x):
    return {"x": x, "text": f"number {x}", "ragged": np.arange(x % 4), "flags": (x > 3, np.float32(x) / 3)}


def words(count):
    for number in range(count):
        yield {"number": number, "word": "na" * number}


def files(directory, count):
    rows = Dataset.range(10 * count).map(lambda x: {"x": x, "values": np.arange(x % 3)})
    rows.save_tfrecords(directory, shards=count)
    return sorted(str(path) for path in directory.glob("*.tfrecord"))


FEATURES = {"x": FixedLenFeature([], "int64"), "values": VarLenFeature("int64")}

PIPELINES = {
    "range": lambda tmp: Dataset.range(100),
    "map": lambda tmp: Dataset.range(100).map(described),
    "workers": lambda tmp: Dataset.range(100).map(described, 2),
    "batch": lambda tmp: Dataset.range(100).map(described).padded_batch(7),
    "shuffle": lambda tmp: Dataset.range(100).shuffle(20, seed=3).batch(8),
    "global shuffle": lambda tmp: Dataset.range(100).shuffle(seed=3).repeat(2),
    "generator": lambda tmp: Dataset.from_generator(words, (30,)),
    "slices": lambda tmp: Dataset.from_tensor_slices({"a": np.arange(60).reshape(20, 3), "b": ["x"] * 20}),
    "interleave": lambda tmp: Dataset.range(5).interleave(lambda n: Dataset.range(n + 3), 3),
    "tfrecords": lambda tmp: Dataset.from_tfrecords(files(tmp, 3), FEATURES).batch(4),
    "nothing": lambda tmp: Dataset.range(0),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_elements_are_those_of_the_pipeline_without_a_service(name, shared, tmp_path):
    ds = PIPELINES[name](tmp_path)
    wanted = list(PIPELINES[name](tmp_path))
    assert_same(ds.distribute(shared.address), wanted)


def test_distribute_obeys_the_laws(shared):
    check_laws(lambda ds: ds.map(described).distribute(shared.address), Dataset.range(6), whole_spec=False)


def test_errors_come_in_their_places(shared):
    events = check_errors(lambda ds: ds.distribute(shared.address), Dataset.range(6))
    assert [kind for kind, _ in events] == ["failed", "element", "element", "failed", "failed", "element"]


def test_an_error_tells_where_in_the_service_it_was_raised(shared):
    def fails(x):
        raise Failed("here")

    with pytest.raises(Failed, match="here") as caught:
        next(iter(Dataset.range(3).map(fails).distribute(shared.address)))
    notes = "\n".join(caught.value.__notes__)
    assert "in the reader service" in notes
    assert 'raise Failed("here")' in notes
    assert "feedline/serve" not in notes


def test_a_function_that_exits_is_an_error_and_not_the_end_of_the_host(shared):
    def leaves(x):
        sys.exit(3)

    with pytest.raises(WorkerError, match="wanted to end the process, by SystemExit"):
        next(iter(Dataset.range(3).map(leaves).distribute(shared.address)))


def not_a_generator():
    raise Failed("cannot be opened")


def outcomes(rows):
    """Of asking three times."""
    for _ in range(3):
        try:
            yield next(rows)
        except (Exception, StopIteration) as error:
            yield type(error)


@pytest.mark.parametrize("what", ["file", "function"])
def test_what_cannot_be_opened_fails_as_it_does_without_a_service(what, shared, tmp_path):
    path = tmp_path / "gone.tfrecord"
    path.write_bytes(b"")
    ds = Dataset.from_tfrecords(str(path)) if what == "file" else Dataset.from_generator(not_a_generator)
    path.unlink()
    wanted = list(outcomes(iter(ds)))
    assert wanted[0] is (FileNotFoundError if what == "file" else Failed)
    assert list(outcomes(iter(ds.distribute(shared.address)))) == wanted


def test_a_module_that_the_service_cannot_import_is_named(shared, tmp_path, monkeypatch):
    (tmp_path / "vanishing_module.py").write_text("def double(x):\n    return 2 * x\n")
    monkeypatch.syspath_prepend(tmp_path)
    from vanishing_module import double

    ds = Dataset.range(3).map(double).distribute(shared.address)
    (tmp_path / "vanishing_module.py").rename(tmp_path / "another.py")
    # As if it were still there for this process: so it is sent by name.
    monkeypatch.setattr(pickling, "_can_be_imported", lambda module: True)
    with pytest.raises(ServiceError, match="cannot import the module 'vanishing_module'") as caught:
        next(iter(ds))
    assert str(tmp_path) in str(caught.value)


def test_a_pipeline_that_cannot_be_pickled_is_refused_with_a_reason(shared):
    lock = threading.Lock()
    ds = Dataset.range(3).map(lambda x: (x, lock)[0]).distribute(shared.address)
    with pytest.raises(UsageError, match="cannot be sent to the reader service"):
        next(iter(ds))


CLIENT = """
import sys
import feedline as fl
from tests.serve.counting import counted

address, log = sys.argv[1:3]
ds = fl.Dataset.range(300).map(counted(log)).batch(10).distribute(address)
print([int(batch.sum()) for batch in ds])
"""


def test_clients_of_the_same_pipeline_share_the_work(service, tmp_path):
    log = tmp_path / "log"
    printed = run_clients(CLIENT, 3, service.address, log)
    wanted = [sum(range(begin, begin + 10)) for begin in range(0, 300, 10)]
    assert [json.loads(one) for one in printed] == [wanted] * 3
    assert len(lines_of(log)) == 300


INTERLEAVED = """
import sys
import feedline as fl
from tests.serve.counting import counted

address, log = sys.argv[1:3]
ds = fl.Dataset.range(10).interleave(lambda n: fl.Dataset.range(30), 4).map(counted(log)).distribute(address)
print(sum(1 for _ in ds))
"""


def test_clients_that_interleave_share_the_work(service, tmp_path):
    log = tmp_path / "log"
    assert run_clients(INTERLEAVED, 2, service.address, log) == ["300\n"] * 2
    assert len(lines_of(log)) == 300


SHUFFLED = """
import sys
import feedline as fl
print([int(x) for x in fl.Dataset.range(100).shuffle(100).distribute(sys.argv[1])])
"""


def test_without_a_seed_every_client_has_its_own_order(service):
    orders = [json.loads(one) for one in run_clients(SHUFFLED, 2, service.address)]
    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(100))


def test_every_epoch_has_the_order_that_it_has_without_a_service(shared):
    plain = Dataset.range(50).shuffle(50, seed=1)
    served = Dataset.range(50).shuffle(50, seed=1).distribute(shared.address)
    for _ in range(3):
        assert_same(served, list(plain))


def test_a_client_that_falls_behind_reads_for_itself_and_misses_nothing(service):
    def large(x):
        return np.full(500_000, x)  # 4 MB: a window holds some sixty

    def make():
        return Dataset.range(200).map(large).distribute(service.address)

    slow = iter(make())
    assert next(slow)[0] == 0
    assert [int(one[0]) for one in make()] == list(range(200))
    assert [int(one[0]) for one in slow] == list(range(1, 200))


def test_a_client_that_keeps_all_blocks_does_not_keep_the_memory_of_the_service(service):
    def large(x):
        return np.full(250_000, x)  # 2 MB

    kept = list(Dataset.range(200).map(large).distribute(service.address))
    assert [int(one[0]) for one in kept] == list(range(200))
    (host,) = service.hosts
    assert comes_true(lambda: 2e6 * len(memory_of([host])) < 100e6)
    assert (kept[3] == 3).all()


def test_arrays_stay_as_they_are_when_their_connection_is_closed(service):
    def make(begin):
        return Dataset.range(begin, begin + 5).map(lambda x: np.full(50_000, x)).distribute(service.address)

    kept = list(make(0))
    stream = iter(make(0))
    kept.append(next(stream))
    stream.close()
    for _ in range(3):
        assert [int(one[0]) for one in make(100)] == [100, 101, 102, 103, 104]
    assert [(int(one[0]), int(one.min()), int(one.max())) for one in kept] == [
        (x, x, x) for x in (0, 1, 2, 3, 4, 0)
    ]


STOPPED = """
import sys
import numpy as np
import feedline as fl

def large(x):
    return np.full(250_000, x)

rows = iter(fl.Dataset.range(400).map(large).distribute(sys.argv[1]))
print(int(next(rows)[0]), flush=True)
sys.stdin.readline()
print([int(one[0]) for one in rows])
"""


def test_a_stopped_client_neither_blocks_others_nor_makes_memory_grow(service):
    stopped = start_python(STOPPED, service.address)
    assert stopped.stdout.readline() == "0\n"
    stop(stopped.pid)
    other = start_python(STOPPED, service.address)
    out, err = other.communicate("\n", timeout=200)
    assert json.loads(out.splitlines()[1]) == list(range(1, 400)), err
    (host,) = service.hosts
    assert 2e6 * len(memory_of([host])) < 400e6  # a window of 256 MB, and what is idle
    os.kill(stopped.pid, 18)
    out, err = stopped.communicate("\n", timeout=200)
    assert json.loads(out) == list(range(1, 400)), err


def test_a_client_that_dies_frees_what_it_held(service):
    client = start_python(STOPPED, service.address)
    assert client.stdout.readline() == "0\n"
    client.kill()
    client.communicate()
    assert comes_true(lambda: [host["clients"] for host in service.status()["hosts"]] in ([[]], []))
    assert comes_true(lambda: not service.hosts, 60)  # a host without clients ends


def test_arrays_are_read_only_because_others_have_the_same(shared):
    element = next(iter(Dataset.from_tensor_slices(np.zeros((3, 4))).distribute(shared.address)))
    with pytest.raises(ValueError, match="read-only"):
        element[0] = 1


def test_a_state_is_good_with_another_service_and_with_none(service):
    def make():
        return Dataset.range(100).shuffle(30, seed=5).map(described).padded_batch(3)

    wanted = list(make())
    rows = iter(make().distribute(service.address))
    for _ in range(12):
        next(rows)
    state = json.loads(json.dumps(rows.state_dict()))
    rows.close()
    service.kill()
    service.start()
    for ds in (make().distribute(service.address), make()):
        again = iter(ds)
        again.load_state_dict(state)
        assert_same(again, wanted[12:])


def test_a_state_taken_without_a_service_is_good_with_one(shared):
    def make():
        return Dataset.range(40).map(described)

    rows = iter(make())
    wanted = list(make())
    for _ in range(7):
        next(rows)
    again = iter(make().distribute(shared.address))
    again.load_state_dict(rows.state_dict())
    assert_same(again, wanted[7:])


def test_steps_after_it_run_in_the_client(shared):
    here = os.getpid()
    pids = [
        (int(there), int(mine))
        for there, mine in Dataset.range(3)
        .map(lambda x: os.getpid())
        .distribute(shared.address)
        .map(lambda pid: (pid, os.getpid()))
    ]
    assert all(there != here and mine == here for there, mine in pids)


def test_it_runs_where_the_client_is(shared, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = next(iter(Dataset.range(1).map(lambda x: os.getcwd()).distribute(shared.address)))
    assert found.decode() == str(tmp_path)


def test_indexed_access_runs_in_the_client(shared):
    ds = Dataset.range(10).map(lambda x: 2 * x).distribute("unix:/nowhere/at/all")
    assert int(ds[4]) == 8
    assert len(ds) == 10


def test_ctrl_c_ends_the_wait_for_a_block(shared):
    rows = iter(Dataset.range(3).map(lambda x: time.sleep(1000) or x).distribute(shared.address))
    with interrupt_soon(), pytest.raises(KeyboardInterrupt):
        next(rows)
    rows.close()


def test_prefetch_that_is_closed_does_not_wait_for_the_service(shared):
    rows = iter(Dataset.range(9).map(slow_after_the_first).distribute(shared.address).prefetch(5))
    assert int(next(rows)) == 0
    rows.close()


def slow_after_the_first(x):
    time.sleep(0.02 if x == 0 else 1000)
    return x


def test_a_forked_child_goes_on_with_a_connection_of_its_own(service):
    rows = iter(Dataset.range(200).map(described).padded_batch(2).distribute(service.address))
    before = [int(next(rows)["x"][0]) for _ in range(3)]
    child = os.fork()
    if not child:
        code = 1
        try:
            code = 0 if [int(one["x"][0]) for one in rows] == list(range(6, 200, 2)) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert before + [int(one["x"][0]) for one in rows] == list(range(0, 200, 2))


def test_pipelines_with_other_functions_run_in_other_processes(service):
    rows = [
        iter(Dataset.range(50).map(f).distribute(service.address)) for f in (lambda x: x, lambda x: x + 1)
    ]
    assert [int(next(one)) for one in rows] == [0, 1]
    assert len(service.hosts) == 2


def test_without_functions_one_process_serves_all(service):
    rows = [iter(Dataset.range(50).batch(size).distribute(service.address)) for size in (2, 5)]
    assert [len(next(one)) for one in rows] == [2, 5]
    assert len(service.hosts) == 1


def test_a_large_pipeline_travels(shared):
    array = np.arange(1_000_000)
    assert (
        sum(
            int(one.sum()) for one in Dataset.from_tensor_slices(array).batch(1000).distribute(shared.address)
        )
        == array.sum()
    )


def test_iterators_that_are_dropped_leave_no_descriptor(shared):
    def open_files():
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    ds = Dataset.range(100).map(described).distribute(shared.address)
    list(islice(ds, 3))
    before = open_files()
    for _ in range(5):
        list(islice(ds, 3))
    assert open_files() == before
    assert is_there(shared.process.pid)

"""mode="split" with a real service: who gets what, what states promise, and what errors say."""

from __future__ import annotations

import json
import os
import shutil
import threading
import warnings
from collections import Counter
from itertools import islice

import numpy as np
import pytest

from feedline import Dataset, ServiceError, UsageError
from tests.processes import LONG, comes_true, run_python
from tests.serve.serving import run_clients, serving

N = 500


@pytest.fixture(scope="module")
def shared():
    with serving() as service:
        yield service
        forget_jobs(service)


@pytest.fixture
def service():
    with serving() as service:
        yield service
        forget_jobs(service)


def forget_jobs(service):
    """The journals of passes that a test did not finish stay, on purpose."""
    shutil.rmtree(f"{service.path}.jobs", ignore_errors=True)


@pytest.fixture
def job(request):
    """A name of its own for each test: services are shared."""
    return request.node.name


def numbers(count=N):
    return Dataset.range(count)


def taken(rows, count=None):
    return [int(row) for row in islice(rows, count)]


def load(rows, state):
    rows.load_state_dict(state)
    return next(rows)


def jobs_of(service):
    return [job for host in service.status()["hosts"] for job in host["jobs"]]


def journals_of(service):
    directory = f"{service.path}.jobs"
    return sorted(os.listdir(directory)) if os.path.isdir(directory) else []


CLIENT = """
import sys
import feedline as fl
numbers = fl.Dataset.range(int(sys.argv[3])).map(lambda x: x * 2)
numbers = numbers.distribute(sys.argv[1], mode="split", job=sys.argv[2])
print(*(int(x) for x in numbers))
"""


def test_processes_get_each_element_once(shared, job):
    printed = run_clients(CLIENT, 3, shared.address, job, "20000")
    assert sorted(int(x) for out in printed for x in out.split()) == list(range(0, 40000, 2))


def test_clients_take_turns_while_they_are_all_there(shared, job):
    parts = [iter(numbers().distribute(shared.address, mode="split", job=job)) for _ in range(3)]
    got = [[], [], []]
    left = {0, 1, 2}
    while left:
        for at in sorted(left):
            row = next(parts[at], None)
            if row is None:
                left.discard(at)
            else:
                got[at].append(int(row))
    assert sorted(x for part in got for x in part) == list(range(N))
    assert all(len(part) > N / 10 for part in got), [len(part) for part in got]


def test_without_a_job_clients_with_the_same_pipeline_have_one(shared):
    first = iter(numbers(37).distribute(shared.address, mode="split"))
    second = iter(numbers(37).distribute(shared.address, mode="split"))
    got = taken(first, 1) + taken(second, 1)
    assert sorted(got + taken(first) + taken(second)) == list(range(37))


def test_each_epoch_is_a_pass_of_its_own(shared, job):
    here = numbers(40).shuffle(10, seed=1).distribute(shared.address, mode="split", job=job)
    first, second = taken(here), taken(here)
    assert sorted(first) == sorted(second) == list(range(40))
    assert first != second
    again = numbers(40).distribute(shared.address, mode="split", job=f"{job} repeated").repeat(3)
    assert sorted(taken(again)) == sorted(3 * list(range(40)))


def test_clients_share_the_seeds_that_the_first_one_drew(shared, job):
    first, second = (
        iter(numbers(200).shuffle(200).distribute(shared.address, mode="split", job=job)) for _ in range(2)
    )
    got = taken(first, 1) + taken(second, 1) + taken(first) + taken(second)
    assert sorted(got) == list(range(200))


def failing(x):
    if x % 10 == 3:
        raise ValueError(f"bad {x}")
    return x


def test_an_element_that_fails_raises_in_one_client(shared, job):
    seen, errors = [], []
    parts = [
        iter(numbers(60).map(failing).distribute(shared.address, mode="split", job=job)) for _ in range(2)
    ]
    left = [0, 1]
    while left:
        for at in tuple(left):
            try:
                seen.append(int(next(parts[at])))
            except StopIteration:
                left.remove(at)
            except ValueError as error:
                errors.append(str(error))
    assert sorted(seen) == [x for x in range(60) if x % 10 != 3]
    assert sorted(errors) == sorted(f"bad {x}" for x in range(3, 60, 10))


def test_what_a_client_leaves_goes_to_another(shared, job):
    first = iter(numbers(200).distribute(shared.address, mode="split", job=job))
    consumed = taken(first, 40)
    first.close()
    rest = taken(numbers(200).distribute(shared.address, mode="split", job=job))
    assert set(consumed) | set(rest) == set(range(200))
    repeated = Counter(consumed + rest) - Counter(range(200))
    assert set(repeated) <= set(consumed[-32:])  # of the block that it had not consumed


def test_the_end_comes_when_everything_was_consumed_not_when_nothing_is_left_to_lease(shared, job):
    holder = iter(numbers(10).distribute(shared.address, mode="split", job=job))
    taken(holder, 1)
    got = []
    other = threading.Thread(
        target=lambda: got.extend(taken(numbers(10).distribute(shared.address, mode="split", job=job)))
    )
    other.start()
    assert comes_true(
        lambda: any(len(one["passes"][0]["clients"]) == 2 for one in jobs_of(shared) if one["job"] == job)
    )
    holder.close()
    other.join(LONG)
    assert got == list(range(10))


def test_a_late_process_gets_nothing_of_a_pass_that_is_over(shared, job):
    (first,) = run_clients(CLIENT, 1, shared.address, job, "50")
    late = run_python(CLIENT, shared.address, job, "50")
    assert len(first.split()) == 50
    assert late.stdout.split() == []
    assert "nothing is left of this pass" in late.stderr


def test_journals_are_removed_when_all_is_over(service, job):
    rows = iter(numbers().distribute(service.address, mode="split", job="runs/1"))
    taken(rows, 3)
    assert journals_of(service) == ["runs%2F1.journal", "runs%2F1.journal.lock"]
    taken(rows)
    rows.close()
    assert comes_true(lambda: not journals_of(service))


def test_a_restored_client_gets_the_same_again(shared, job):
    def begin():
        return iter(numbers().distribute(shared.address, mode="split", ack="state", job=job))

    other = begin()
    first = begin()
    before = taken(first, 30)
    state = json.loads(json.dumps(first.state_dict()))
    since, others = [], taken(other, 20)
    for _ in range(4):
        since += taken(first, 25)
        others += taken(other, 25)
    first.close()  # and so is the trainer
    again = begin()
    again.load_state_dict(state)
    replayed = taken(again, len(since))
    assert replayed == since
    others += taken(other, 10)
    rest = taken(again)
    others += taken(other)
    assert sorted(before + replayed + rest + others) == list(range(N))


PIPELINES = {
    "prefetch": lambda split: split.prefetch(5),
    "batch": lambda split: split.batch(7).unbatch(),
    "shuffle": lambda split: split.shuffle(50, seed=3),
    "prefetched shuffle": lambda split: split.prefetch(3).shuffle(20, seed=3).prefetch(2),
    "map in workers": lambda split: split.map(lambda x: x, num_parallel_calls=2),
    "repeat": lambda split: split.repeat(2),
    "concatenate": lambda split: split.concatenate(Dataset.range(0)),
    "shuffled repeat": lambda split: split.repeat(2).shuffle(100, seed=3),
}


@pytest.mark.parametrize("after", PIPELINES)
def test_states_are_exact_behind_other_steps(shared, job, after, monkeypatch):
    monkeypatch.setenv("FEEDLINE_CLIENT", "trainer")

    def begin():
        split = numbers(200).distribute(shared.address, mode="split", ack="state", job=job)
        return iter(PIPELINES[after](split))

    rows = begin()
    trained = taken(rows, 20)
    while True:
        state = json.loads(json.dumps(rows.state_dict()))
        lost = taken(rows, 30)
        rows.close()
        rows = begin()
        rows.load_state_dict(state)
        part = taken(rows, 35)
        assert part[: len(lost)] == lost
        trained += part
        if not part:
            break
    rounds = 2 if "repeat" in after else 1
    assert sorted(trained) == sorted(rounds * list(range(200)))


def test_the_state_before_the_last_can_be_loaded_too(shared, job):
    """A trainer may be killed while it writes its checkpoint."""

    def begin():
        return iter(numbers().distribute(shared.address, mode="split", ack="state", job=job))

    rows = begin()
    states = [(rows.state_dict(), taken(rows, 30)) for _ in range(3)]
    rows.close()
    rows = begin()
    with pytest.raises(UsageError, match="last two states"):
        load(rows, states[0][0])
    rows = begin()
    rows.load_state_dict(states[1][0])
    assert taken(rows, 60) == states[1][1] + states[2][1]
    assert len(taken(rows)) == N - 90


def test_an_old_state_is_refused_with_ack_next(shared, job):
    def begin():
        return iter(numbers().distribute(shared.address, mode="split", job=job))

    rows = begin()
    taken(rows, 5)
    state = rows.state_dict()
    taken(rows, 100)
    rows.close()
    again = begin()
    with pytest.raises(UsageError, match='ack="state"'):
        load(again, state)


def test_a_client_that_comes_back_under_its_name_goes_on_without_a_state(shared, job, monkeypatch):
    monkeypatch.setenv("FEEDLINE_CLIENT", "trainer")

    def begin():
        return iter(numbers().distribute(shared.address, mode="split", ack="state", job=job))

    rows = begin()
    consumed = taken(rows, 40)
    rows.state_dict()
    since = taken(rows, 50)
    rows.close()
    again = taken(begin())
    assert again[:50] == since
    assert sorted(consumed + again) == list(range(N))


def test_a_second_client_of_the_same_name_is_refused(shared, job, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    first = iter(numbers().distribute(shared.address, mode="split", job=job))
    next(first)
    second = iter(numbers().distribute(shared.address, mode="split", job=job))
    with pytest.raises(UsageError, match=r"'rank 1'(?s:.*)FEEDLINE_CLIENT"):
        next(second)


def test_clients_of_a_job_must_agree(shared, job):
    first = iter(numbers().distribute(shared.address, mode="split", job=job))
    next(first)
    with pytest.raises(UsageError, match="another pipeline"):
        next(iter(numbers().map(lambda x: x).distribute(shared.address, mode="split", job=job)))
    with pytest.raises(UsageError, match="ack='next'"):
        next(iter(numbers().distribute(shared.address, mode="split", ack="state", job=job)))


def test_arguments_that_cannot_be_meant_are_refused(shared):
    with pytest.raises(UsageError, match="mode='parts'"):
        numbers().distribute(shared.address, mode="parts")
    with pytest.raises(UsageError, match="ack='never'"):
        numbers().distribute(shared.address, mode="split", ack="never")
    with pytest.raises(UsageError, match="job=''"):
        numbers().distribute(shared.address, mode="split", job="")
    with pytest.raises(UsageError, match="fallback"):
        numbers().distribute(shared.address, mode="split", fallback="local")
    with pytest.raises(UsageError, match='mode="split" only'):
        numbers().distribute(shared.address, job="a")


def test_without_a_service_there_is_a_clear_error(tmp_path):
    with pytest.raises(ServiceError, match="there is no reader service"):
        next(iter(numbers().distribute(f"unix:{tmp_path}/none", mode="split", job="a")))


def test_looking_at_the_spec_takes_nothing_from_anyone(shared, job):
    here = numbers(30).distribute(shared.address, mode="split", job=job).map(lambda x: x * 2)
    assert here.element_spec.dtype == np.int64
    assert taken(here) == [2 * x for x in range(30)]


def test_a_service_that_is_started_again_goes_on_with_the_pass(service):
    def begin():
        return iter(numbers().distribute(service.address, mode="split", ack="state", job="a"))

    first, second = begin(), begin()
    trained = taken(first, 30) + taken(second, 30)
    state = first.state_dict()
    lost = taken(first, 30)
    service.kill()
    service.start()
    trained += taken(second, 20)  # it reconnects by itself
    restored = begin()
    restored.load_state_dict(state)
    part = taken(restored, 30)
    assert part == lost
    trained += part
    trained += taken(restored) + taken(second)
    assert sorted(trained) == list(range(N))


def test_a_lost_host_is_replaced(service):
    rows = iter(numbers().distribute(service.address, mode="split", job="a"))
    got = taken(rows, 30)
    (host,) = service.hosts
    os.kill(host, 9)
    assert sorted(got + taken(rows)) == list(range(N))


def test_a_source_that_does_not_repeat_itself_is_an_error_not_a_loss(service):
    def draw():
        rng = np.random.default_rng()
        while True:
            yield rng.random()

    # More than the client gets before the host is killed.
    drawn = Dataset.from_generator(draw).take(1_000_000)
    rows = iter(drawn.distribute(service.address, mode="split", ack="state", job="a"))
    taken(rows, 40_000)  # it is noticed where a block of the source has ended before
    (host,) = service.hosts
    os.kill(host, 9)
    with pytest.raises(UsageError, match="does not repeat"):
        for _ in rows:
            pass


def test_status_shows_jobs(service):
    rows = iter(numbers().distribute(service.address, mode="split", ack="state", job="train"))
    taken(rows, 3)
    shown = json.loads(run_python_cli(service, "--json"))
    (job,) = [job for host in shown["hosts"] for job in host["jobs"]]
    assert (job["job"], job["ack"]) == ("train", "state")
    (one,) = job["passes"]
    (client,) = one["clients"].values()
    assert client == {"connected": True, "blocks": 1, "unacknowledged": one["given"]}
    text = run_python_cli(service)
    assert "train" in text
    assert "unacknowledged" in text


def run_python_cli(service, *arguments):
    code = "import sys; from feedline.cli.__main__ import main; sys.exit(main())"
    comes_true(lambda: jobs_of(service) and jobs_of(service)[0]["passes"])
    done = run_python(code, "serve", "--socket", service.path, "--status", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_states_of_a_torch_dataset_acknowledge(shared, job):
    pytest.importorskip("torch")
    here = numbers(100).distribute(shared.address, mode="split", ack="state", job=job).to_torch()
    rows = iter(here)
    for _ in range(50):
        next(rows)
    here.state_dict()
    (found,) = [one for one in jobs_of_when(shared, job, lambda one: one["passes"])]
    (client,) = found["passes"][0]["clients"].values()
    assert client["unacknowledged"] == found["passes"][0]["given"] - 50


def jobs_of_when(service, job, condition):
    comes_true(lambda: any(one["job"] == job and condition(one) for one in jobs_of(service)))
    return [one for one in jobs_of(service) if one["job"] == job]


def test_workers_of_a_data_loader_are_refused(shared, job):
    torch = pytest.importorskip("torch")
    here = numbers(100).distribute(shared.address, mode="split", job=job).to_torch()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(UsageError, match="num_workers=0"):
            list(torch.utils.data.DataLoader(here, num_workers=1))

"""Clients that divide a pass, killed and stopped at random moments, and hosts and services that are killed.

Nothing is lost. With ack="next", only the block that a killed client had may be given again. With
ack="state", what the clients have in their checkpoints is each element once.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections import Counter
from contextlib import suppress
from random import Random

import pytest

from tests.processes import LONG, is_there, start_python
from tests.serve.serving import serving

N = 1500

# Clients are forks of this program, so that many take seconds. A client that was killed is replaced.
PROGRAM = """
import json, os, random, signal, sys, time, traceback, warnings
import feedline as fl

address, ack, directory, kills, n = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[6])
rng = random.Random(int(sys.argv[5]))
CLIENTS = 3

def double(x):
    return 2 * x

def split(state=None):
    # A client that begins while there is no service tries again. One that has begun waits for it by itself.
    while True:
        rows = iter(fl.Dataset.range(n).map(double).distribute(address, mode="split", ack=ack, job="chaos"))
        try:
            if state is None:
                rows.find_state()
            else:
                rows.load_state_dict(state)
                rows.find_state()
            return rows
        except fl.ServiceError:
            time.sleep(0.05)

def log_each(name):
    # Every element that is consumed is a line at once.
    with open(os.path.join(directory, name), "ab", buffering=0) as log:
        for x in split():
            log.write(b"%d\\n" % x)
            time.sleep(0.002)

def train(name):
    path = os.path.join(directory, name)

    def save(state, trained):
        with open(path + ".new", "w") as file:
            json.dump([state, trained], file)
        os.rename(path + ".new", path)

    if os.path.exists(path):
        state, trained = json.load(open(path))
        rows = split(state)
    else:
        rows, trained = split(), []
        save(rows.state_dict(), trained)
    for x in rows:
        trained.append(int(x))
        time.sleep(0.002)
        if len(trained) % 23 == 0:
            save(rows.state_dict(), trained)
    save(rows.state_dict(), trained)

def start(number, time_):
    name = f"{number}" if ack == "state" else f"{number}-{time_}"
    pid = os.fork()
    if pid:
        return pid
    try:
        os.environ["FEEDLINE_CLIENT"] = name
        (train if ack == "state" else log_each)(name)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)

running = {start(number, 0): (number, 0) for number in range(CLIENTS)}
while running:
    time.sleep(rng.uniform(0.02, 0.25))
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            break
        number, time_ = running.pop(pid)
        if os.WIFSIGNALED(status):
            running[start(number, time_ + 1)] = number, time_ + 1
        elif os.WEXITSTATUS(status):
            sys.exit(1)
    if running and kills:
        victim = rng.choice(list(running))
        if rng.random() < 0.2:
            os.kill(victim, signal.SIGSTOP)
            time.sleep(rng.uniform(0.0, 0.3))
            os.kill(victim, signal.SIGCONT)
        else:
            kills -= 1
            os.kill(victim, signal.SIGKILL)
"""


def run(service, ack, directory, seed, kills, chaos):
    """Run the program, and meanwhile `chaos` again and again. It must end well."""
    program = start_python(PROGRAM, service.address, ack, str(directory), str(kills), str(seed), str(N))
    has_ended = threading.Event()
    failures = []

    def disturb():
        rng, before = Random(seed), 0
        try:
            while not has_ended.wait(rng.uniform(0.1, 0.5)):
                # Three deaths without a block in between are an error, on purpose.
                if (given := blocks_given(service)) > before + 6:
                    before = given
                    chaos(service, rng)
        except BaseException as error:
            failures.append(error)

    disturber = threading.Thread(target=disturb)
    disturber.start()
    try:
        _, err = program.communicate(timeout=LONG)
    finally:
        program.kill()
        has_ended.set()
        disturber.join(LONG)
    assert not failures, failures
    assert program.returncode == 0, err


def blocks_given(service):
    passes = [one for host in service.status()["hosts"] for job in host["jobs"] for one in job["passes"]]
    return sum(client["blocks"] for one in passes for client in one["clients"].values())


def nothing(service, rng):
    pass


def kill_a_host(service, rng):
    for host in service.hosts:
        with suppress(ProcessLookupError):
            os.kill(host, 9)


def kill_the_service(service, rng):
    if rng.random() < 0.5:
        kill_a_host(service, rng)
        return
    hosts = service.hosts
    service.process.kill()
    service.process.communicate(timeout=LONG)
    service.start()
    assert not [host for host in hosts if is_there(host) and host in service.hosts]


@pytest.fixture
def chaotic(tmp_path, monkeypatch):
    # Nobody waits a minute for a client that dies together with its host, and so is not seen to die.
    monkeypatch.setenv("FEEDLINE_SERVICE_GRACE", "15")
    with serving() as service:
        yield service, tmp_path
        shutil.rmtree(f"{service.path}.jobs", ignore_errors=True)


HOW = [(nothing, 30), (kill_a_host, 10), (kill_the_service, 6)]


@pytest.mark.parametrize(("chaos", "kills"), HOW)
@pytest.mark.parametrize("seed", [1])
def test_with_ack_next_nothing_is_lost_and_only_the_last_block_of_a_killed_client_comes_again(
    chaotic, chaos, kills, seed
):
    service, directory = chaotic
    run(service, "next", directory, seed, kills, chaos)
    logs = {path.name: [int(line) for line in path.read_text().split()] for path in directory.iterdir()}
    consumed = Counter(x for log in logs.values() for x in log)
    assert set(consumed) == set(range(0, 2 * N, 2))
    # A client that takes 2 ms for an element gets no more than 16 at once.
    may_repeat = Counter(x for log in logs.values() for x in log[-16:])
    repeated = consumed - Counter(range(0, 2 * N, 2))
    assert not repeated - may_repeat


@pytest.mark.parametrize(("chaos", "kills"), HOW)
@pytest.mark.parametrize("seed", [1])
def test_with_ack_state_the_checkpoints_hold_each_element_once(chaotic, chaos, kills, seed):
    service, directory = chaotic
    run(service, "state", directory, seed, kills, chaos)
    trained = [x for number in "012" for x in json.loads((directory / number).read_text())[1]]
    assert Counter(trained) == Counter(range(0, 2 * N, 2))

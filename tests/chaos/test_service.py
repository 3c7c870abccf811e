"""A reader service, its hosts, their workers and its clients, killed at random moments.

Every client reads its elements in their order, none twice and none missing, and nothing is left behind.
FEEDLINE_KILLS=1000 makes a longer run.
"""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import suppress

from tests.processes import LONG, comes_true, is_there, start_python, workers_of
from tests.serve.serving import serving

KILLS = int(os.environ.get("FEEDLINE_KILLS", "36"))

# Goes on from its last checkpoint, and says what is wrong with what it got.
CLIENT = """
import json, os, sys, time
import feedline as fl

address, state, stop = sys.argv[1:]

def slow(x):
    end = time.thread_time() + 0.0005
    while time.thread_time() < end:
        pass
    return x

def make(number):
    return fl.Dataset.range(400).shuffle(50, seed=number % 3).map(slow, 2).batch(4)

def save(epoch, position, where):
    with open(state + ".new", "w") as file:
        json.dump([epoch, position, where], file)
    os.replace(state + ".new", state)

epoch, position, where = json.load(open(state)) if os.path.exists(state) else (0, 0, None)
while not (os.path.exists(stop) and position == 0):
    wanted = [batch.tolist() for batch in fl.Dataset.range(400).shuffle(50, seed=epoch % 3).batch(4)]
    rows = iter(make(epoch).distribute(address))
    if where is not None:
        rows.load_state_dict(where)
    while True:
        try:
            batch = next(rows, None)
        except (fl.ServiceError, fl.WorkerDied):
            time.sleep(0.05)  # it is started again
            continue
        if batch is None:
            break
        assert batch.tolist() == wanted[position], (epoch, position, batch, wanted[position])
        position += 1
        save(epoch, position, rows.state_dict())
    assert position == 100, (epoch, position)
    epoch, position, where = epoch + 1, 0, None
    save(epoch, position, where)
print("epochs:", epoch)
"""


def test_kills_at_random_moments_lose_nothing_and_leave_nothing(tmp_path):
    chance = random.Random(20)
    stop = tmp_path / "stop"
    seen = set()  # processes of the service
    with serving() as service:

        def start(number):
            return start_python(CLIENT, service.address, tmp_path / f"state-{number}", stop)

        clients = {number: start(number) for number in range(3)}
        for _ in range(KILLS):
            time.sleep(chance.random())
            workers = [worker for host in service.hosts for worker in workers_of(host)]
            seen.update([service.process.pid, *service.hosts, *workers])
            kind = chance.choice(["client", "worker", "host", "service"])
            if kind == "service":
                service.kill()
                service.process.stderr.close()
                service.start()
            elif kind == "client":
                number = chance.randrange(3)
                assert clients[number].poll() is None, clients[number].stderr.read()
                clients[number].kill()
                clients[number].communicate()
                clients[number] = start(number)
            elif targets := (workers if kind == "worker" else service.hosts):
                _kill(chance.choice(targets))
        stop.touch()
        for client in clients.values():
            out, err = client.communicate(timeout=LONG)
            assert client.returncode == 0, err
            assert out.startswith("epochs: ")
        assert comes_true(lambda: not any(host["clients"] for host in service.status()["hosts"]))
    assert comes_true(lambda: not any(map(is_there, seen)))


def _kill(pid):
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)

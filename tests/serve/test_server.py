"""The service itself: who may listen, who may connect, and what happens to those who talk nonsense."""

from __future__ import annotations

import os
import random
import signal
import socket
import stat
import sys
import time
from contextlib import suppress

import pytest

from feedline import Dataset, ServiceError, UsageError
from feedline.run.channel import MOST, Channel, Closed
from feedline.serve.protocol import VERSION, Ask, AskStatus, Hello, Link, Refused, _encoder, _Long
from feedline.serve.protocol import Status as Answer
from feedline.serve.request import request_for
from feedline.serve.server import Service as Server
from tests.processes import LONG, comes_true, is_there, run_python, start_python
from tests.serve.serving import is_serving, serving


def raw(service):
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.connect(service.path)
    sock.settimeout(LONG)
    return sock


def is_closed(sock):
    try:
        return sock.recv(MOST) == b""
    except ConnectionResetError:
        return True


def test_only_the_user_may_connect_to_the_socket(service):
    assert stat.S_IMODE(os.stat(service.path).st_mode) == 0o600


def test_a_second_service_on_a_socket_is_refused(service):
    with pytest.raises(ServiceError, match=rf"listens there already: process {service.process.pid} "):
        Server(service.path)
    assert is_serving(service.address)


def test_the_socket_of_a_killed_service_is_replaced(service):
    service.kill()
    assert os.path.exists(service.path)
    service.start()
    assert [int(x) for x in Dataset.range(3).distribute(service.address)] == [0, 1, 2]


def test_a_file_at_its_place_is_left_alone(tmp_path):
    path = tmp_path / "data"
    path.write_text("precious")
    with pytest.raises(ServiceError, match="not a socket"):
        Server(str(path))
    assert path.read_text() == "precious"
    assert os.listdir(tmp_path) == ["data"]


def test_a_path_that_is_too_long_is_refused(tmp_path):
    with pytest.raises(UsageError, match="107 bytes at most"):
        Server(str(tmp_path / ("x" * 120)))


@pytest.mark.parametrize("signal_", [signal.SIGTERM, signal.SIGINT], ids=lambda s: s.name)
def test_a_signal_ends_it_cleanly(signal_, service):
    rows = iter(Dataset.range(1_000_000).map(lambda x: x).distribute(service.address))
    next(rows)
    hosts = service.hosts
    service.process.send_signal(signal_)
    assert service.process.wait(LONG) == 0
    assert not any(map(is_there, hosts))
    assert os.listdir(os.path.dirname(service.path)) == []
    with pytest.raises(ServiceError, match=r"feedline serve --socket .*service"):
        list(rows)


GARBAGE = [
    b"\0",
    b"garbage",
    os.urandom(1000),
    b"\x93\xa5Hello",
    _encoder.encode(Hello(1, "", "k", "", ()))[:-1],
]


@pytest.mark.parametrize("number", range(len(GARBAGE)))
def test_garbage_ends_that_connection_alone(number, shared):
    rows = iter(Dataset.range(1000).distribute(shared.address))
    next(rows)
    sock = raw(shared)
    sock.send(GARBAGE[number])
    assert is_closed(sock)
    sock.close()
    assert sum(1 for _ in rows) == 999


def test_random_bytes_in_place_of_every_message_end_that_connection_alone(shared):
    chance = random.Random(5)
    request = request_for("test", Dataset.range(5)._node, iter(Dataset.range(5))._context)
    sound = [_encoder.encode(one) for one in (request.hello, request.at(None))]
    for _ in range(60):
        sock = raw(shared)
        for message in sound[: chance.randrange(3)]:
            sock.send(message)
        changed = bytearray(sound[chance.randrange(2)])
        for _ in range(chance.randrange(1, 20)):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        with suppress(OSError):  # it was closed already
            sock.send(changed[: chance.randrange(1, len(changed) + 1)])
        sock.close()
    assert is_serving(shared.address)
    assert [int(x) for x in Dataset.range(3).distribute(shared.address)] == [0, 1, 2]


@pytest.mark.parametrize("size", [1 << 40, 1 << 52, MOST + 1], ids=["large", "larger", "with holes"])
def test_a_size_that_lies_ends_that_connection_alone(size, shared):
    fd = os.memfd_create("lie", os.MFD_CLOEXEC)
    if size < 1 << 40:
        os.ftruncate(fd, size)  # nothing is behind it
    for after_hello in (False, True):
        sock = raw(shared)
        if after_hello:
            hello = request_for("test", Dataset.range(5)._node, iter(Dataset.range(5))._context).hello
            sock.send(_encoder.encode(hello))
            sock.recv(MOST)  # the host's welcome
        socket.send_fds(sock, [_encoder.encode(_Long(size))], [fd])
        assert is_closed(sock)
        sock.close()
    os.close(fd)
    assert is_serving(shared.address)


def test_descriptors_that_nobody_asked_for_are_closed(service):
    before = len(os.listdir(f"/proc/{service.process.pid}/fd"))
    for _ in range(20):
        sock = raw(service)
        fds = [os.open(os.devnull, os.O_RDONLY) for _ in range(5)]
        socket.send_fds(sock, [_encoder.encode(AskStatus(VERSION))], fds)
        for fd in fds:
            os.close(fd)
        is_closed(sock)
        sock.close()
    assert comes_true(lambda: len(os.listdir(f"/proc/{service.process.pid}/fd")) <= before)


def test_a_client_that_asks_without_reading_loses_its_connection(shared):
    request = request_for("test", Dataset.range(5)._node, iter(Dataset.range(5))._context)
    link = Link(Channel(raw(shared)), Refused)
    link.send(request.hello)
    with pytest.raises(Closed):
        send_often(link, request.at(None), Ask())
    link.close()


def send_often(link, first, then):
    link.send(first)
    for _ in range(10_000):
        link.send(then)


def test_another_python_is_refused_with_both_versions(shared):
    link = Link(Channel(raw(shared)), Refused)
    link.send(Hello(VERSION, "2.7", "key", "/", ()))
    answer, _ = link.receive()
    assert "Python 2.7" in answer.reason
    assert "Start the service in the environment of its clients" in answer.reason
    link.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_another_user_is_refused_on_both_sides(tmp_path):
    nobody = 65534
    directory = tmp_path / "d"
    directory.mkdir()
    os.chown(directory, nobody, nobody)
    for parent in (directory, *directory.parents):
        if parent.stat().st_uid == os.geteuid() and str(parent).startswith("/tmp/"):
            parent.chmod(0o755)
    code = f"""
import os, sys
sys.path[:] = {sys.path!r}
from feedline.serve.server import run
os.setgid({nobody}); os.setuid({nobody})
run({str(directory / "s")!r}, listening=lambda service: print("on", flush=True))
"""
    program = start_python(code, cwd="/")
    assert program.stdout.readline() == "on\n", program.stderr.read()
    try:
        with pytest.raises(ServiceError, match=rf"belongs to another user \(uid {nobody}\)"):
            next(iter(Dataset.range(3).distribute(f"unix:{directory / 's'}")))
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sock.connect(str(directory / "s"))
        sock.settimeout(LONG)
        assert is_closed(sock)
        sock.close()
    finally:
        program.terminate()
        program.communicate(timeout=LONG)


def test_without_a_service_the_error_says_how_to_start_one(tmp_path):
    path = tmp_path / "s"
    with pytest.raises(ServiceError, match=rf"feedline serve --socket {path}"):
        next(iter(Dataset.range(3).distribute(f"unix:{path}")))


def test_when_the_service_dies_clients_get_a_clear_error(service):
    rows = iter(Dataset.range(1_000_000).map(lambda x: x).distribute(service.address))
    next(rows)
    service.kill()
    with pytest.raises(ServiceError, match="there is no reader service"):
        list(rows)


def test_with_a_fallback_clients_go_on_by_themselves_at_the_same_element(service, caplog):
    def make():
        return Dataset.range(600).shuffle(100, seed=7).map(lambda x: time.sleep(0.001) or 3 * x).batch(5)

    wanted = [one.tolist() for one in make()]
    rows = iter(make().distribute(service.address, fallback="local"))
    found = [next(rows).tolist() for _ in range(10)]
    service.kill()
    found += [one.tolist() for one in rows]
    assert found == wanted
    assert len([one for one in caplog.records if "without the reader service" in one.message]) == 1


def test_a_fallback_needs_no_service_at_all(tmp_path, caplog):
    ds = Dataset.range(5).distribute(f"unix:{tmp_path}/s", fallback="local")
    assert [int(x) for x in ds] == [0, 1, 2, 3, 4]
    assert "there is no reader service" in caplog.text


def test_status_tells_of_clients_pipelines_rates_handles_and_memory(service):
    rows = iter(Dataset.range(100_000).map(lambda x: x).batch(2).distribute(service.address))
    for _ in range(100):
        next(rows)

    def clients():
        return [client for host in service.status()["hosts"] for client in host["clients"]]

    assert comes_true(lambda: [client["elements"] for client in clients()] >= [100])
    (client,) = clients()
    assert client["pid"] == os.getpid()
    assert client["pipeline"] == "range -> map(lambda) -> batch"
    (host,) = service.status()["hosts"]
    assert [one["producers"] for one in host["pipelines"]] == [1]
    assert host["memory"] > 0
    assert comes_true(lambda: service.status()["open_files"] == 0)


def test_the_workers_of_a_service_are_bounded():
    with serving("--workers", "1") as service:
        pids = {
            int(pid) for pid in Dataset.range(200).map(lambda x: os.getpid(), 4).distribute(service.address)
        }
        assert len(pids) == 1
        assert os.getpid() not in pids


def test_limits_are_divided_among_the_hosts_alive():
    from feedline.serve.limits import Limits

    limits = Limits(max_open_files=100, memory_limit=1000, workers=4)
    assert [(one.files, one.memory, one.workers) for one in map(limits.share, (1, 2, 3, 9))] == [
        (100, 1000, 4),
        (50, 500, 2),
        (33, 333, 1),
        (11, 111, 1),
    ]


def test_a_host_ends_with_the_service(service):
    rows = iter(Dataset.range(1000).map(lambda x: x, 2).distribute(service.address))
    next(rows)
    service.kill()  # which waits for the hosts
    assert not is_serving(service.address)


def test_a_service_that_cannot_listen_says_why(tmp_path):
    done = run_python(
        "from feedline.cli import main; main()",
        "serve",
        "--socket",
        str(tmp_path / "no" / "such" / "directory"),
    )
    assert done.returncode != 0
    assert "No such file or directory" in done.stderr
    assert "Traceback" not in done.stderr


def test_answers_are_of_the_kind_that_was_asked_for(shared):
    link = Link(Channel(raw(shared)), Answer)
    link.send(AskStatus(VERSION))
    answer, _ = link.receive()
    assert '"hosts"' in answer.json
    link.close()

"""A redis-server of its own for a test, on a free port, gone at its end."""

from __future__ import annotations

import shutil
import socket
import subprocess
from contextlib import contextmanager

import pytest

from tests.processes import comes_true


class RedisServer:
    def __init__(self, directory, *options, tls=False):
        self.directory = directory
        self.port = _free_port()
        ports = ("--port", "0", "--tls-port", str(self.port)) if tls else ("--port", str(self.port))
        self._command = [
            *("redis-server", *ports, "--bind", "127.0.0.1", "--dir", str(directory), "--save", ""),
            *("--unixsocket", str(directory / "socket"), "--logfile", str(directory / "log"), *options),
        ]
        self.process = None

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    @property
    def url(self):
        return f"redis://{self.address}/0"

    def start(self):
        self.process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
        log = self.directory / "log"
        ready = "Ready to accept connections"
        before = log.read_text().count(ready) if log.exists() else 0
        started = comes_true(
            lambda: (
                self.process.poll() is not None or (log.exists() and log.read_text().count(ready) > before)
            ),
            120,
        )
        assert started, "redis-server says nothing"
        assert self.process.poll() is None, log.read_text() if log.exists() else "redis-server did not start"

    def stop(self):
        """As the system does it when it shuts down; what it persists is written before."""
        self.process.terminate()
        self.process.wait(200)

    def kill(self):
        self.process.kill()
        self.process.wait(200)


@contextmanager
def running(directory, *options, tls=False):
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed:  apt-get install redis-server")
    server = RedisServer(directory, *options, tls=tls)
    try:
        server.start()
        yield server
    finally:
        if server.process is not None:
            server.kill()


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def certificates(directory):
    """The options of a server that speaks TLS as 127.0.0.1, and the certificate of its authority."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl, which makes certificates, is not installed:  apt-get install openssl")

    key, certificate = directory / "server.key", directory / "server.pem"
    subprocess.run(
        [
            *(
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
                "-nodes",
            ),
            *("-days", "2", "-subj", "/CN=feedline test", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
        timeout=200,
    )
    files = (
        "--tls-cert-file",
        str(certificate),
        "--tls-key-file",
        str(key),
        "--tls-ca-cert-file",
        str(certificate),
    )
    return (*files, "--tls-auth-clients", "no"), certificate

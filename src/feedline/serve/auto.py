"""unix:auto: a service of this user's, started when the first client needs it, and gone when it is idle.

Its directory is private, and other users cannot put something else in its place.
"""

from __future__ import annotations

import fcntl
import os
import select
import stat
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress

from feedline.errors import ServiceError
from feedline.run.channel import not_standard
from feedline.run.interpreter import place
from feedline.serve.client import connect
from feedline.serve.protocol import Link, Message

IDLE = 60.0
"""Seconds without a client after which it ends."""

IDLE_VARIABLE = "FEEDLINE_SERVICE_IDLE"
"""The environment variable that says otherwise, for tests."""

_STARTING = 60.0  # seconds that it may take
_ATTEMPTS = 5
_READY = b"feedline serves\n"
_START = """
import sys
sys.path[:] = sys.argv[4:]
from feedline.serve.auto import serve
serve(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]))
"""


def directory() -> str:
    """Where this user's service has its socket. It is made if it is not there, and belongs to the user."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    base = runtime if runtime and os.path.isdir(runtime) else tempfile.gettempdir()
    path = os.path.join(base, f"feedline-{os.geteuid()}")
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise ServiceError(
            f"{path}: this must be a directory that only you can use (mode 0700), for the reader service.\n"
            "  Remove it, or set XDG_RUNTIME_DIR to a directory of yours."
        )
    return path


def socket_path() -> str:
    return os.path.join(directory(), "service")


def started(*kinds: type[Message]) -> Link:
    """A link to the service, which is started if there is none. One process at a time does that."""
    path = socket_path()
    address = f"unix:{path}"
    error: ServiceError | None = None
    for _ in range(_ATTEMPTS):
        with suppress(ServiceError):
            return connect(address, *kinds)
        starting = os.open(os.path.dirname(path), os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(starting, fcntl.LOCK_EX)
            with suppress(ServiceError):  # another process has started it meanwhile
                return connect(address, *kinds)
            _start(path)
        except ServiceError as failed:  # one that ends just now may still have the lock of the socket
            error = failed
        finally:
            os.close(starting)
    raise error or ServiceError(f"{path}: the reader service ended as soon as it was started.")


def _start(path: str) -> None:
    """Returns when it listens. It outlives this process."""
    idle = os.environ.get(IDLE_VARIABLE, str(IDLE))
    readable, writable = map(not_standard, os.pipe())
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", _START, path, idle, str(writable), *place().paths],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=writable,
            pass_fds=[writable],
            start_new_session=True,  # Ctrl-C and the end of the terminal are for this process
            cwd=os.sep,
        )
    finally:
        os.close(writable)
    with open(readable, "rb", buffering=0) as words:
        until, said = time.monotonic() + _STARTING, b""
        while select.select([words], [], [], max(0.0, until - time.monotonic()))[0] and (
            more := words.read(4096)
        ):
            said += more
            if said.endswith(_READY):
                threading.Thread(target=process.wait, name="feedline-service", daemon=True).start()
                return
    process.kill()
    process.wait()
    told = said.decode(errors="replace").strip()[-2000:] or "It said nothing."
    raise ServiceError(f"{path}: the reader service could not be started.\n{told}")


def serve(path: str, idle: float, ready: int) -> None:
    """The main of a service that was started so."""
    from feedline.serve.server import run

    def listening(_: object) -> None:
        os.write(ready, _READY)
        # Nobody reads any more what is written there.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 2)
        os.close(nowhere)
        os.close(ready)

    run(path, idle=idle, listening=listening)

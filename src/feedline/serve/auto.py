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
from contextlib import suppress

from feedline.errors import ServiceError
from feedline.run.channel import not_standard
from feedline.serve.client import connect
from feedline.serve.protocol import Link, Message

IDLE = 60.0
"""Seconds without a client after which it ends."""

IDLE_VARIABLE = "FEEDLINE_SERVICE_IDLE"
"""The environment variable that says otherwise, for tests."""

_STARTING = 60.0  # seconds that it may take
_ATTEMPTS = 5
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
        with open(f"{path}.start", "a") as starting:
            fcntl.flock(starting, fcntl.LOCK_EX)
            with suppress(ServiceError):  # another process has started it meanwhile
                return connect(address, *kinds)
            try:
                _start(path)
            except ServiceError as failed:  # or one that ends just now still has the lock
                error = failed
    raise error or ServiceError(f"{path}: the reader service ended as soon as it was started.")


def _start(path: str) -> None:
    """Returns when it listens. It outlives this process."""
    idle = os.environ.get(IDLE_VARIABLE, str(IDLE))
    readable, writable = map(not_standard, os.pipe())
    try:
        with open(f"{path}.log", "wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-c", _START, path, idle, str(writable), *sys.path],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[writable],
                start_new_session=True,  # Ctrl-C and the end of the terminal are for this process
                cwd=os.sep,
            )
        os.close(writable)
        writable = -1
        is_ready = bool(select.select([readable], [], [], _STARTING)[0]) and os.read(readable, 1) == b"+"
    finally:
        os.close(readable)
        if writable >= 0:
            os.close(writable)
    if not is_ready:
        process.kill()
        process.wait()
        with open(f"{path}.log", errors="replace") as log_text:
            words = log_text.read()[-2000:].strip()
        raise ServiceError(f"{path}: the reader service could not be started.\n{words}")
    _forget(process)


def _forget(process: subprocess.Popen[bytes]) -> None:
    """Reap it when it ends, if this process is still there: an idle service must not stay as a zombie."""
    import threading

    threading.Thread(target=process.wait, name="feedline-service", daemon=True).start()


def serve(path: str, idle: float, ready: int) -> None:
    """The main of a service that was started so."""
    from feedline.serve.server import run

    def listening(_: object) -> None:
        os.write(ready, b"+")
        os.close(ready)

    run(path, idle=idle, listening=listening)

"""The service: listens, checks who calls, and hands each connection to the host for its functions.

It reads no data, unpickles nothing and runs no function of a user. One thread waits for all.

A service holds a lock beside its socket for as long as it lives. That tells a socket in use from one that a
killed service left behind.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from feedline.errors import ServiceError, UsageError
from feedline.records.lock_file import LockFile, holder_of
from feedline.run.channel import Be, Channel, Closed
from feedline.serve.host_process import HostProcess
from feedline.serve.limits import Limits
from feedline.serve.protocol import (
    PYTHON,
    VERSION,
    AskDeath,
    AskStatus,
    Death,
    Hello,
    Link,
    Refused,
    Status,
    peer_of,
)
from feedline.serve.status import usage

_MOST_PATH = 107  # bytes, which is all that the kernel takes for a socket
_MOST_MESSAGE = 16 << 20  # bytes of what a client says to the service itself
_MOST_PENDING = 256  # connections that have not said what they want
_PATIENCE = 10.0  # seconds, for them to say it
_PAUSE = 0.05  # seconds
_HOST_IDLE = 5.0  # seconds without a client after which a host ends
_LOOK = 0.5  # seconds from one look at those to the next
_DEATHS = 64  # hosts of which it is remembered how they ended


class Service:
    """Listens from the moment it is made. `serve` runs until `stop`, or until it has been idle."""

    def __init__(self, path: str, limits: Limits | None = None, idle: float | None = None) -> None:
        self.path = os.path.abspath(path)
        self._limits = limits or Limits()
        self._idle = idle  # seconds without a client after which it ends; None: it stays
        self._began = self._used = time.monotonic()
        self._hosts: dict[int, HostProcess] = {}  # by descriptor
        self._pending: dict[int, tuple[socket.socket, Link, float]] = {}  # by descriptor, with since when
        self._deaths: dict[int, str] = {}
        self._made = 0
        self._is_stopped = False
        self._lock = _lock(self.path)
        try:
            self._listening = _listen(self.path)
        except BaseException:
            self._lock.release()
            raise
        self._waiting = selectors.DefaultSelector()
        self._waiting.register(self._listening, selectors.EVENT_READ)

    def stop(self) -> None:
        """From a signal handler, say."""
        self._is_stopped = True

    def serve(self) -> None:
        try:
            while not self._is_stopped and not self._is_idle():
                for key, _ in self._waiting.select(_LOOK):
                    if key.fileobj is self._listening:
                        self._accept()
                    elif key.fd in self._hosts:
                        self._hear_host(self._hosts[key.fd])
                    elif key.fd in self._pending:
                        self._hear(key.fd)
                self._look()
        finally:
            self.close()

    def close(self) -> None:
        """Leave nothing behind."""
        with suppress(FileNotFoundError):
            os.unlink(self.path)
        self._listening.close()
        for fd in tuple(self._pending):
            self._forget(fd)
        for host in tuple(self._hosts.values()):
            self._end(host)
        self._waiting.close()
        self._lock.release()

    def _is_idle(self) -> bool:
        return self._idle is not None and time.monotonic() - self._used > self._idle

    def _look(self) -> None:
        """After those that do nothing."""
        now = time.monotonic()
        if any(host.clients for host in self._hosts.values()):  # who only asks for the status is none
            self._used = now
        for fd, (_, _, since) in tuple(self._pending.items()):
            if now - since > _PATIENCE:
                self._forget(fd)
        for host in tuple(self._hosts.values()):
            if host.idle_for() > _HOST_IDLE:
                self._end(host)
                self._tell_shares()

    def _accept(self) -> None:
        try:
            sock, _ = self._listening.accept()
        except OSError:  # it has gone again; or there is no descriptor left, for which others must wait
            time.sleep(_PAUSE)
            return
        _, uid = peer_of(sock)
        if uid != os.geteuid() or len(self._pending) >= _MOST_PENDING:
            sock.close()
            return
        sock.setblocking(False)
        link = Link(Channel(sock), Hello, AskStatus, AskDeath, most=_MOST_MESSAGE)
        self._pending[sock.fileno()] = sock, link, time.monotonic()
        self._waiting.register(sock, selectors.EVENT_READ)

    def _forget(self, fd: int) -> None:
        sock, _, _ = self._pending.pop(fd)
        self._waiting.unregister(sock)
        sock.close()

    def _hear(self, fd: int) -> None:
        """The first message of a connection is all that the service itself answers."""
        sock, link, _ = self._pending[fd]
        try:
            message, extra = link.receive()
            if extra is not None:
                os.close(extra)
            if isinstance(message, Hello):
                self._pass_on(message, sock, link)
            elif isinstance(message, AskStatus):
                link.send(Status(json.dumps(self.snapshot())))
            else:
                link.send(Death(self._death_of(message.host)))
        except (Closed, OSError):
            pass
        finally:
            self._forget(fd)

    def _pass_on(self, hello: Hello, sock: socket.socket, link: Link) -> None:
        if (hello.version, hello.python) != (VERSION, PYTHON):
            link.send(
                Refused(
                    f"the service runs Python {PYTHON} (protocol {VERSION}), this program Python "
                    f"{hello.python} (protocol {hello.version}).\n"
                    "  Start the service in the environment of its clients."
                )
            )
            return
        pid, _ = peer_of(sock)
        while True:
            try:
                host = self._host_for(hello)
            except (OSError, ValueError) as error:  # a path with a zero in it, say
                link.send(Refused(f"the service could not start a process: {error}"))
                return
            try:
                host.take(pid, sock.fileno())
                return
            except Closed:
                self._bury(host)

    def _host_for(self, hello: Hello) -> HostProcess:
        for host in self._hosts.values():
            if host.key == hello.host:
                return host
        self._made += 1
        share = self._limits.share(len(self._hosts) + 1)
        for other in self._hosts.values():  # first: the limits hold for all together
            other.keep(share)
        host = HostProcess(self._made, hello.host, Be(hello.directory, hello.paths), self.path, share)
        self._hosts[host.link.fileno()] = host
        self._waiting.register(host.link, selectors.EVENT_READ)
        return host

    def _hear_host(self, host: HostProcess) -> None:
        try:
            host.hear()
        except Closed:
            self._bury(host)

    def _bury(self, host: HostProcess) -> None:
        """Clients that it had come again."""
        self._deaths[host.number] = host.death()
        while len(self._deaths) > _DEATHS:
            del self._deaths[next(iter(self._deaths))]
        self._end(host)
        self._tell_shares()

    def _end(self, host: HostProcess) -> None:
        del self._hosts[host.link.fileno()]
        self._waiting.unregister(host.link)
        host.close()

    def _tell_shares(self) -> None:
        share = self._limits.share(len(self._hosts))
        for host in self._hosts.values():
            host.keep(share)

    def _death_of(self, number: int) -> str | None:
        if number not in self._deaths and not any(host.number == number for host in self._hosts.values()):
            return "distribute: the host of this pipeline in the reader service went away; nobody knows why."
        return self._deaths.get(number)

    def snapshot(self) -> dict[str, Any]:
        """What `feedline serve --status` shows."""
        hosts = [{"pid": host.pid, **usage(host.pid), **host.report} for host in self._hosts.values()]
        limits = asdict(self._limits)
        return {
            "socket": self.path,
            "pid": os.getpid(),
            "seconds": time.monotonic() - self._began,
            "limits": limits,
            "open_files": sum(host["open_files"] for host in hosts),
            "memory": sum(host["memory"] for host in hosts),
            "hosts": hosts,
        }


def _lock(path: str) -> LockFile:
    lock = LockFile.take(f"{path}.lock")
    if lock is None:
        holder = holder_of(f"{path}.lock") or "another process"
        raise ServiceError(
            f"{path}: a reader service listens there already: {holder}.\n"
            f'  Use it, with distribute("unix:{path}"), or choose another path with --socket.'
        )
    return lock


def _listen(path: str) -> socket.socket:
    if len(os.fsencode(path)) > _MOST_PATH:
        raise UsageError(f"{path}: a socket's path has {_MOST_PATH} bytes at most. Choose a shorter one.")
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise ServiceError(f"{path}: this is a file, not a socket. Choose another path with --socket.")
        os.unlink(path)  # of a service that was killed: it would hold the lock
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    # From the first moment on: between bind and chmod, others could connect.
    mask = os.umask(0o177)
    try:
        listening.bind(path)
        listening.listen(128)
        listening.setblocking(False)
    except BaseException:
        listening.close()
        raise
    finally:
        os.umask(mask)
    return listening


def run(
    path: str,
    limits: Limits | None = None,
    idle: float | None = None,
    listening: Callable[[Service], None] = lambda service: None,
) -> None:
    """Serve until SIGTERM or Ctrl-C. `listening` is called when clients may come."""
    service = Service(path, limits, idle)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: service.stop())
    listening(service)
    service.serve()

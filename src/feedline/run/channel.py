"""Messages between a process and its worker, over a socket that nobody else knows.

A message is a tuple, one of those below, and may bring a file descriptor along. What is large lies in shared
memory.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from array import array
from typing import Any, NamedTuple

MOST = 128 << 10
"""Bytes sent at once: less than a socket holds, so that who sends does not wait for who is busy."""


class Lent(NamedTuple):
    """A new segment, with its descriptor."""

    number: int
    size: int


class Long(NamedTuple):
    """A message that is too long for the socket: it lies in the front of a segment."""

    segment: int
    size: int


class Be(NamedTuple):
    """In this directory, and look for modules where these paths say."""

    directory: str
    paths: tuple[str, ...]


class Learn(NamedTuple):
    """A job, as cloudpickle has written it to the front of a segment."""

    job: int
    segment: int
    size: int


class Forget(NamedTuple):
    job: int


class Run(NamedTuple):
    """Do a job with the rows of a frame."""

    task: int
    job: int
    segment: int
    size: int
    first: int  # its number in the stream
    writable: bool  # may the function change them?


class Read(NamedTuple):
    """Give the next rows of the stream that a job opens."""

    task: int
    job: int
    limit: int


class Done(NamedTuple):
    """The results as a frame, if there are any, and the pickled error of what comes after them."""

    task: int
    segment: int | None
    size: int
    error: bytes | None
    seconds: float
    after: Any = None  # the state of a stream
    opened: bool = True  # False: the error is that the stream could not be


class Closed(Exception):
    """The other side is gone."""


def not_standard(fd: int) -> int:
    """The descriptor, or another one instead: where standard streams are closed, their numbers are free."""
    if fd > 2:
        return fd
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(fd)


def _not_standard(sock: socket.socket) -> socket.socket:
    return socket.socket(fileno=not_standard(sock.detach()))


class Channel:
    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock

    @classmethod
    def pair(cls) -> tuple[Channel, socket.socket]:
        """One end, and the socket of the other, for a process that is to be started."""
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        return cls(_not_standard(here)), _not_standard(there)

    @classmethod
    def of(cls, fd: int) -> Channel:
        """The end that came as a descriptor. Sending to a peer that does not read raises Closed at once."""
        sock = socket.socket(fileno=fd)
        sock.setblocking(False)
        return cls(sock)

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, data: bytes, fd: int | None = None) -> None:
        assert len(data) <= MOST
        try:
            socket.send_fds(self._socket, [data], [] if fd is None else [fd])
        except OSError as error:
            raise Closed from error

    def receive(self) -> tuple[bytes, int | None]:
        """What was sent, and its descriptor. Waits for it; Closed when nothing will come."""
        space = socket.CMSG_SPACE(_INT)
        try:
            try:
                data, ancillary, flags, _ = self._socket.recvmsg(MOST, space, socket.MSG_CMSG_CLOEXEC)
            except ConnectionResetError:
                # The other side went without reading all that was sent to it. What it sent before is there.
                data, ancillary, flags, _ = self._socket.recvmsg(MOST, space, socket.MSG_CMSG_CLOEXEC)
        except OSError as error:
            raise Closed from error
        fds = array("i")
        for _, _, found in ancillary:
            fds.frombytes(found[: len(found) - len(found) % _INT])
        is_broken = not data or bool(flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC))
        for extra in fds if is_broken else fds[1:]:
            os.close(extra)
        if flags & socket.MSG_CTRUNC and len(fds) == 0:  # there was no number left for its descriptor
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        if is_broken:  # or not one of us, whose messages are whole
            raise Closed
        return data, fds[0] if fds else None

    def close(self) -> None:
        self._socket.close()


_INT = array("i").itemsize

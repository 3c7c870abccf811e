"""The messages of the reader service, and the links that carry them.

    client -> service   Hello, AskStatus, AskDeath
    service -> client   Refused, Status, Death
    service -> host     Settle, Take (with the client's connection), Share
    host -> service     Report
    client -> host      Open, Ask; in split mode OpenSplit, Finish, Acknowledge
    host -> client      Welcome, Lent (with its descriptor), Rows, Failed, End; in split mode Joined,
                        Acknowledged

They are typed msgpack and never pickle: whoever sends something else loses its connection, and nothing else
happens. Sizes are bounded before anything is allocated for them. Two fields hold pickles, which only their
readers load: the pipeline in `Open`, in a host that runs that client's functions anyway, and the error in
`Failed`, in the client.

A message that is too long for the socket comes in a memfd.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec

from feedline.run.channel import MOST, Channel, Closed

VERSION = 1
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"

MOST_LONG = 4 << 30
"""Bytes of one message. A pipeline that holds arrays is large."""

Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)]
Text: TypeAlias = Annotated[str, msgspec.Meta(max_length=8192)]
Key: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]


class Message(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=True):
    pass


class Hello(Message, frozen=True):
    """Who calls, and which host should have the connection. `Open` follows at once."""

    version: Number
    python: Text
    host: Key
    directory: Text
    paths: Annotated[tuple[Text, ...], msgspec.Meta(max_length=10_000)]


class AskStatus(Message, frozen=True):
    version: Number


class AskDeath(Message, frozen=True):
    """Why did this host end?"""

    host: Number


class Refused(Message, frozen=True):
    reason: str


class Status(Message, frozen=True):
    json: str


class Death(Message, frozen=True):
    """None: it has not ended, as far as the service knows."""

    story: str | None


class Share(Message, frozen=True):
    """What one host may use."""

    workers: Number
    memory: Number | None
    files: Number


class Settle(Message, frozen=True):
    """A host's first message: its number, and the path of the service's socket."""

    host: Number
    socket: Text
    share: Share


class Take(Message, frozen=True):
    """A client, whose connection comes with this message."""

    pid: Number


class Report(Message, frozen=True):
    """How many clients have left a host so far, and what it does."""

    left: Number
    json: str


class Open(Message, frozen=True):
    """Give the blocks of a pipeline from this state on.

    Clients with the same `key` get the same blocks. `opening` is a pickle of the pipeline. It `is_fragile` if
    hosts died of it: then nothing is made that was not asked for.
    """

    key: Key
    outline: Text
    state: str  # JSON
    opening: bytes
    is_fragile: bool = False


class Ask(Message, frozen=True):
    """For one more block. `returned` are segments whose arrays have died."""

    returned: Annotated[tuple[Number, ...], msgspec.Meta(max_length=1024)] = ()
    after: Number | None = None  # in split mode: the number of the delivery that it has


class Welcome(Message, frozen=True):
    host: Number


class Lent(Message, frozen=True):
    segment: Number
    size: Number


class Rows(Message, frozen=True):
    """A frame at the front of a segment, and the state after it. Segments in `closed` can be forgotten."""

    segment: Number
    size: Number
    begin: Number  # the first row of the frame that counts
    rows: Number
    after: str  # in split mode, the client's position: a number
    closed: tuple[Number, ...] = ()


class Failed(Message, frozen=True):
    """The pickled error of an element, or (without a state) of opening the pipeline."""

    error: bytes
    after: str | None


class End(Message, frozen=True):
    after: str


Epoch: TypeAlias = Annotated[tuple[int, ...], msgspec.Meta(max_length=64)]


class OpenSplit(Message, frozen=True):
    """Take part in a pass of a job.

    `pipeline` is its fingerprint, and `process` tells processes with the same client's name apart. A client
    that knows its position says where it is `at`, and which position it `saved` if it was restored from a
    state; the state names the job's `generation`.
    """

    job: Key
    ack: Text
    pipeline: Key
    outline: Text
    epoch: Epoch
    seeds: tuple[int, ...]
    client: Key
    process: Key
    generation: Key | None
    at: tuple[Number, Number] | None
    saved: tuple[Number, Number] | None
    opening: bytes


class Joined(Message, frozen=True):
    generation: str
    after: Number
    is_over: bool  # was all of the pass consumed before?


class Finish(Message, frozen=True):
    """Everything was consumed that this process got in passes which have ended."""


class Acknowledge(Message, frozen=True):
    """A state was taken at these positions."""

    job: Key
    generation: Key
    client: Key
    positions: Annotated[
        tuple[tuple[Epoch, Number, Number], ...], msgspec.Meta(min_length=1, max_length=10_000)
    ]


class Acknowledged(Message, frozen=True):
    pass


class _Long(Message, frozen=True):
    """The message is in the memfd that comes with this one."""

    size: Number


_encoder = msgspec.msgpack.Encoder()
_Sent = TypeVar("_Sent", bound=Message)


class Link:
    """One end of a connection, which takes messages of these kinds."""

    def __init__(self, channel: Channel, *kinds: type[Message], most: int = MOST_LONG) -> None:
        """A message has `most` bytes at most."""
        self.channel = channel
        self._most = most
        self._decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(_union((*kinds, _Long)))

    def fileno(self) -> int:
        return self.channel.fileno()

    def send(self, message: Message, fd: int | None = None) -> None:
        """Closed when the other side is gone, or when it does not read what it is sent."""
        data = _encoder.encode(message)
        if len(data) <= MOST:
            self.channel.send(data, fd)
            return
        assert fd is None
        with open(os.memfd_create("feedline", os.MFD_CLOEXEC), "wb", buffering=0) as file:
            for at in range(0, len(data), 1 << 30):  # one write takes 2 GiB at most
                file.write(memoryview(data)[at : at + (1 << 30)])
            self.channel.send(_encoder.encode(_Long(len(data))), file.fileno())

    def receive(self) -> tuple[Any, int | None]:
        """The next message and its descriptor. Closed when none will come, or when it is none of ours."""
        data, fd = self.channel.receive()
        try:
            message = self._decoder.decode(data)
            if isinstance(message, _Long):
                held, fd = fd, None
                message = self._decoder.decode(_read(held, message.size, self._most))
                if isinstance(message, _Long):
                    raise Closed
            return message, fd
        except (msgspec.DecodeError, ValueError, OSError, MemoryError, RecursionError) as error:
            if fd is not None:
                os.close(fd)
            raise Closed from error

    def close(self) -> None:
        self.channel.close()


def _union(kinds: tuple[type[Message], ...]) -> Any:
    union: Any = kinds[0]
    for kind in kinds[1:]:
        union = union | kind
    return union


def _read(fd: int | None, size: int, most: int) -> bytearray:
    """The front of a file, whose size is the other side's word, and so is that of a file with holes."""
    if fd is None:
        raise Closed
    try:
        held = os.fstat(fd)
        if size > most or held.st_size != size or 512 * held.st_blocks < size:
            raise Closed
        data = bytearray()
        while len(data) < size:
            # Not mapped: the other side could cut the file short while it is read.
            more = os.pread(fd, min(size - len(data), 1 << 30), len(data))
            if not more:
                raise Closed
            data += more
        return data
    finally:
        os.close(fd)


_CREDENTIALS = struct.Struct("3i")


def peer_of(sock: socket.socket) -> tuple[int, int]:
    """The pid and the uid of the process at the other end, as the kernel tells them."""
    told = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(told)
    return pid, uid

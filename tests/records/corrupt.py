"""TFRecord files made by hand, ways to damage them, and what an error about one must hold.

The framing here is written from the format's description, not with feedline's own code.
"""

from __future__ import annotations

import pickle
import struct
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import google_crc32c

from feedline.errors import CorruptRecord, SchemaError

FOOTER = 4  # bytes


def frame(payload: bytes) -> bytes:
    return header(len(payload)) + payload + _masked(payload)


def frames(payloads: Iterable[bytes]) -> bytes:
    return b"".join(map(frame, payloads))


def header(length: int) -> bytes:
    """A sound header, whatever the length that it claims."""
    size = struct.pack("<Q", length)
    return size + _masked(size)


def _masked(data: bytes) -> bytes:
    crc = google_crc32c.value(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def flip(data: bytes, bit: int) -> bytes:
    """The data with one bit changed, counted from the first byte's lowest."""
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def varint(value: int) -> bytes:
    """Any value from -2**63 to 2**64 - 1, as protobuf writes it."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, content: bytes) -> bytes:
    """A length-delimited protobuf field."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def example(**features: bytes) -> bytes:
    """A tf.train.Example; each value is a serialized tf.train.Feature."""
    entries = (field(1, field(1, key.encode()) + field(2, value)) for key, value in features.items())
    return field(1, b"".join(entries))


def ints(*values: int) -> bytes:
    """A tf.train.Feature with an int64_list."""
    return field(3, field(1, b"".join(map(varint, values))))


def strings(*values: bytes) -> bytes:
    """A tf.train.Feature with a bytes_list."""
    return field(1, b"".join(field(1, value) for value in values))


def check_located(error: BaseException, path: Path, record: int, offset: int) -> None:
    """The error says where, in words and in attributes; what to do; and it crosses a process."""
    assert isinstance(error, CorruptRecord | SchemaError)
    assert (error.path, error.record, error.offset) == (str(path), record, offset)
    first, *rest = str(error).splitlines()
    assert first.startswith(f"{path}: record {record:,} at byte {offset:,} ")
    assert rest, "no remedy"
    assert any("feedline " in line or "on_corrupt" in line for line in rest)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert (str(copy), vars(copy)) == (str(error), vars(error))


def run_python(script: str, *arguments: object, timeout: float = 200) -> str:
    """Runs the script in an interpreter of its own, and gives what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)], capture_output=True, text=True, timeout=timeout
    )
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def bytes_read() -> int:
    """What this process has read from files so far."""
    with open("/proc/self/io") as file:
        return int(file.readline().removeprefix("rchar: "))

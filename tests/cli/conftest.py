"""Files for the commands to look at, and a way to run them."""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from feedline import _native
from feedline.cli import app
from feedline.records import example


@dataclass
class Ran:
    code: int
    out: str
    err: str

    def lines(self) -> list[Any]:
        """stdout as JSON, one value a line."""
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture
def feedline():
    """Runs a command in this process."""

    def run(*args):
        result = CliRunner().invoke(app, [str(arg) for arg in args])
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Ran(result.exit_code, result.stdout, result.stderr)

    return run


@pytest.fixture
def write(tmp_path):
    """Writes payloads, or dicts as Examples, into a TFRecord file."""

    def write(name, items):
        path = tmp_path / name
        payloads = [item if isinstance(item, bytes) else example.encode(item) for item in items]
        path.write_bytes(b"".join(map(_native.frame, payloads)))
        return str(path)

    return write


@pytest.fixture
def pets(write):
    """Three Examples; only the last has toys."""
    pixels = np.array([0.1, 0.5], np.float32)
    pets = [
        {"name": b"Tom", "age": 3, "pixels": pixels, "photo": b"\xff\xd8\x00"},
        {"name": b"Ann", "age": 11, "pixels": pixels, "photo": b"\xff\xd8\x01"},
        {"name": b"Bo", "age": 7, "pixels": pixels, "photo": b"\xff\xd8\x02", "toys": [b"ball", b"bone"]},
    ]
    return write("pets.tfrecord", pets)


@pytest.fixture
def damaged(write):
    """Ten records; a bit of record 4's payload is flipped, and record 9 has lost its last byte."""
    path = write("damaged.tfrecord", [b"payload %d" % number for number in range(10)])
    with open(path, "r+b") as file:
        size = 16 + len(b"payload 0")
        file.seek(4 * size + 12)
        file.write(b"P")
        file.truncate(10 * size - 1)
    return path

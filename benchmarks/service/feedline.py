"""feedline: one client of a reader service, and for comparison the same pipeline without one."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from functools import cache

import feedline as fl
from benchmarks.service import Batch, arrays
from benchmarks.service_shared import start_service

ROWS = {"feedline": [{"serves": True}], "feedline_alone": [{"serves": False}]}


def run(count: int, serves: bool) -> Iterator[Batch]:
    ds = fl.Dataset.from_tensor_slices(arrays()).repeat(count // 4).enumerate()
    return iter(ds.distribute(f"unix:{_socket()}") if serves else ds)


@cache
def _socket() -> str:
    directory = tempfile.mkdtemp()
    path = os.path.join(directory, "service")
    service = start_service(path)

    def end() -> None:
        service.terminate()
        service.wait()
        shutil.rmtree(directory)

    atexit.register(end)
    return path

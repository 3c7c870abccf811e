"""tf.data service: a dispatcher and a worker, in a process of their own."""

from __future__ import annotations

import atexit
import subprocess
import sys
from collections.abc import Iterator
from functools import cache

import tensorflow as tf

from benchmarks.service import Batch, arrays

ROWS = {
    "tf_data_service": [
        {"compression": None, "requests": 16, "source": "slices"},
        {"compression": None, "requests": 16, "source": "gather"},
        {"compression": None, "requests": 4, "source": "slices"},
        {"compression": None, "requests": None, "source": "slices"},
        {"compression": "AUTO", "requests": 16, "source": "slices"},
    ]
}

_SERVERS = """
import sys
import tensorflow as tf
service = tf.data.experimental.service
dispatcher = service.DispatchServer()
worker = service.WorkerServer(service.WorkerConfig(dispatcher_address=dispatcher.target.split("://")[1]))
print(dispatcher.target, flush=True)
sys.stdin.read()
"""


def run(count: int, compression: str | None, requests: int | None, source: str) -> Iterator[Batch]:
    if source == "slices":
        ds = tf.data.Dataset.from_tensor_slices(arrays()).repeat(count // 4).enumerate()
    else:
        rows = tf.constant(arrays())
        ds = tf.data.Dataset.range(count).map(lambda n: (n, tf.gather(rows, n % 4)), tf.data.AUTOTUNE)
    ds = ds.apply(
        tf.data.experimental.service.distribute(
            processing_mode="parallel_epochs",
            service=_target(),
            compression=compression,
            max_outstanding_requests=requests,
        )
    )
    return iter(ds.prefetch(tf.data.AUTOTUNE).as_numpy_iterator())


@cache
def _target() -> str:
    servers = subprocess.Popen(
        [sys.executable, "-c", _SERVERS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert servers.stdout is not None
    target = servers.stdout.readline().strip()

    def end() -> None:
        servers.kill()
        servers.wait()

    atexit.register(end)
    return target

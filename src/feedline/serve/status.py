"""What the service and its processes use, as the kernel tells it, and asking a service for all of it."""

from __future__ import annotations

import json
import os
import stat
from contextlib import suppress
from typing import Any

from feedline.errors import ServiceError
from feedline.run.channel import Closed
from feedline.serve.client import connect
from feedline.serve.protocol import VERSION, AskStatus, Refused
from feedline.serve.protocol import Status as Answer


def ask_status(address: str) -> dict[str, Any]:
    """The snapshot of the service there."""
    link = connect(address, Answer, Refused)
    try:
        link.send(AskStatus(VERSION))
        answer, _ = link.receive()
    except Closed as error:
        raise ServiceError(f"{address}: the reader service ended.") from error
    finally:
        link.close()
    if isinstance(answer, Refused):
        raise ServiceError(f"{address}: {answer.reason}")
    found: dict[str, Any] = json.loads(answer.json)
    return found


def usage(pid: int) -> dict[str, int]:
    """Of a process and its workers: open data files, and memory, of which shared pages count in part."""
    pids = [pid, *_children(pid)]
    return {
        "workers": len(pids) - 1,
        "open_files": sum(map(_open_files, pids)),
        "memory": sum(map(_memory, pids)),
    }


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError), open(f"/proc/{pid}/task/{task}/children") as file:
                found += map(int, file.read().split())
    return found


def _open_files(pid: int) -> int:
    count = 0
    with suppress(OSError):
        for fd in set(os.listdir(f"/proc/{pid}/fd")) - {"0", "1", "2"}:
            with suppress(OSError):
                path = f"/proc/{pid}/fd/{fd}"
                is_data = stat.S_ISREG(os.stat(path).st_mode) and not os.readlink(path).startswith("/memfd:")
                count += is_data
    return count


def _memory(pid: int) -> int:
    with suppress(OSError), open(f"/proc/{pid}/smaps_rollup") as file:
        for line in file:
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0

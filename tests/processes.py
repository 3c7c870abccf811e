"""What processes there are and what they hold, as the kernel tells it."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

from feedline.run import pool

LONG = 200  # seconds: the limit of waits that only reach it if something hangs, even on a busy machine


def children_of(pid):
    return [one for one in all_processes() if _stat(one)[1:2] == [str(pid)]]


def workers_of(pid):
    """Those that are not ended, and past their start."""
    return [one for one in children_of(pid) if is_there(one) and b"feedline.run.worker" in _command(one)]


def is_there(pid):
    return _stat(pid)[:1] not in ([], ["Z"])


def memory_of(pids):
    """The inodes of feedline's shared memory that any of these processes has, open or mapped."""
    found = set()
    for pid in pids:
        try:
            for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
                if "/memfd:feedline" in line:
                    found.add(int(line.split()[4]))
            for link in Path(f"/proc/{pid}/fd").iterdir():
                if "/memfd:feedline" in os.readlink(link):
                    found.add(link.stat().st_ino)
        except OSError:
            continue  # it has ended meanwhile, or is somebody else's
    return found


def all_processes():
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]


def comes_true(condition, seconds=LONG):
    """Wait for it, at most so long."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


@contextmanager
def interrupt_soon():
    """Sends this process what Ctrl-C sends, while the block runs."""
    timer = threading.Timer(0.4, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    yield
    timer.join()


def resident():
    """Bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def run_python(code, *arguments, **how):
    """A program of its own, with the same feedline; what it wrote, and how it ended."""
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, **({"timeout": LONG} | how)
    )


def start_python(code, *arguments, **how):
    """The same, running, with pipes to talk to it."""
    piped = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-c", code, *arguments], **(piped | how))


def deaths_in(dataset):
    """Of workers, in its last iteration."""
    return sum(row.deaths for row in dataset.stats().rows)


def dismiss_workers():
    """End those that wait for the next iteration: it begins with fresh ones."""
    gc.collect()  # iterators that were dropped may still have some
    pool.end_idle()


def _stat(pid):
    """The state, the parent and so on; nothing when there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _command(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def stop(pid):
    """SIGSTOP, until every thread has stopped: on a busy machine, some go on for a while."""
    os.kill(pid, signal.SIGSTOP)
    assert comes_true(lambda: all(_state(task) == "T" for task in Path(f"/proc/{pid}/task").iterdir()), 60)


def _state(task):
    return (task / "stat").read_text().rpartition(")")[2].split()[0]

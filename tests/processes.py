"""What processes there are and what they hold, as the kernel tells it."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from pathlib import Path

from feedline.run import processes


def children_of(pid):
    found = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal())
    return [one for one in found if _stat(one)[1:2] == [str(pid)]]


def workers_of(pid):
    """Those that are not ended, and past their start."""
    return [one for one in children_of(pid) if is_there(one) and b"feedline.run.worker" in _command(one)]


def is_there(pid):
    return _stat(pid)[:1] not in ([], ["Z"])


def memory_holders():
    """The processes that hold shared memory of feedline, open or mapped."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and is_there(entry.name):
            try:
                mapped = "/memfd:feedline" in (entry / "maps").read_text()
                opened = any("/memfd:feedline" in os.readlink(one) for one in (entry / "fd").iterdir())
            except OSError:  # it has ended meanwhile, or is somebody else's
                continue
            if mapped or opened:
                found.add(int(entry.name))
    return found


def comes_true(condition, seconds):
    """Wait for it, at most so long."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def resident():
    """Bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def run_python(code, *arguments, **how):
    """A program of its own, with the same feedline; what it wrote, and how it ended."""
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, **({"timeout": 60} | how)
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
    processes._dismiss_idle()


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

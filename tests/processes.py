"""What processes there are, as the kernel tells it."""

from __future__ import annotations

from pathlib import Path


def children_of(pid):
    found = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal())
    return [one for one in found if _stat(one)[1:2] == [str(pid)]]


def workers_of(pid):
    """Those that are not ended, and past their start."""
    return [one for one in children_of(pid) if is_there(one) and b"feedline.run.worker" in _command(one)]


def is_there(pid):
    return _stat(pid)[:1] not in ([], ["Z"])


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

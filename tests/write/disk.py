"""What is asked of the disk, in its order."""

from __future__ import annotations

import os
from pathlib import Path


def watched(monkeypatch):
    """A list that grows: ("sync", path) and ("name", path)."""
    asked = []
    fsync, replace = os.fsync, os.replace

    def sync(fd):
        fsync(fd)
        asked.append(("sync", Path(os.readlink(f"/proc/self/fd/{fd}"))))

    def name(old, new):
        replace(old, new)
        asked.append(("name", Path(new)))

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "replace", name)
    return asked

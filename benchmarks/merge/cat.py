"""cat, in a process of its own; and sync for the file it made, as feedline does before the file appears."""

from __future__ import annotations

import subprocess

from benchmarks.merge import Joined

ROWS = {"cat": [{"sync": False}], "cat, then sync": [{"sync": True}]}


def merge(files: tuple[str, ...], sync: bool) -> Joined:
    joined = Joined()
    with open(joined.path, "wb") as out:
        subprocess.run(["cat", *files], stdout=out, check=True)
    if sync:
        subprocess.run(["sync", joined.path], check=True)
    return joined

"""feedline: the kernel copies, a thread checks every record."""

from __future__ import annotations

import feedline as fl
from benchmarks.merge import Joined

ROWS = {"feedline": [{}]}


def merge(files: tuple[str, ...]) -> Joined:
    joined = Joined()
    fl.records.merge(files, joined.path)
    return joined

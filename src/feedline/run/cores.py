"""How many cores this process may use: fewer than the machine has, in a container say."""

from __future__ import annotations

import math
import os
from functools import cache
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")


def usable_cores() -> int:
    """Those it may run on, or fewer when a quota allows less of their time."""
    quota = _quota(_CGROUP)  # read once: that takes longer than to begin an iteration
    cores = len(os.sched_getaffinity(0))
    return cores if quota is None else max(1, min(cores, math.ceil(quota)))


@cache
def _quota(cgroup: Path) -> float | None:
    """In cores; None when there is none."""
    try:
        quota, period = (cgroup / "cpu.max").read_text().split()  # version 2
    except (OSError, ValueError):
        try:
            quota = (cgroup / "cpu/cpu.cfs_quota_us").read_text().strip()
            period = (cgroup / "cpu/cpu.cfs_period_us").read_text().strip()
        except OSError:
            return None
    return int(quota) / int(period) if quota.isdigit() and int(period) else None

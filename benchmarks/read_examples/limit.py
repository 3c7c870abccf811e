"""The floor: read every byte into one reused buffer and take its CRC32C, on one thread.

No reader that checks its records can do less. The settings are buffer sizes: in the caches of a core,
or large enough that system calls do not count.
"""

from __future__ import annotations

import google_crc32c
import numpy as np

from benchmarks.workloads import Workload

ROWS = {"limit": [{"buffer_kb": size} for size in (256, 128, 1024, 4096)]}


def read(workload: Workload, buffer_kb: int) -> int:
    buffer = np.empty(buffer_kb << 10, np.uint8)  # google_crc32c takes arrays, but no bytearray
    total = 0
    for path in workload.files:
        crc = 0
        with open(path, "rb", buffering=0) as file:
            while count := file.readinto(buffer):
                crc = google_crc32c.extend(crc, buffer[:count])
                total += count
    return total

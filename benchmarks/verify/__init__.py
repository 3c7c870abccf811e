"""How fast is every record of a file checked, against reading its bytes and taking their checksum?

A rival defines `verify(workload, **settings) -> int`: the number of good records, or, for a floor that
knows no records, the number of bytes it went over.
"""

from __future__ import annotations

from benchmarks.workloads import Workload

FUNCTION = "verify"
WORKLOADS = ("img", "dense", "tab")
FILES = 16
BASES = ("limit",)


def prepare(workload: Workload) -> Workload:
    return workload


def check(answer: int, workload: Workload) -> None:
    if answer not in (workload.records, workload.bytes):
        raise AssertionError(f"{answer} is neither the {workload.records} records nor {workload.bytes} bytes")


consume = check

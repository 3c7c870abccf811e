"""One rival in a process of its own: say what it offers, or check it once and then time it.

    python -m benchmarks.child QUESTION RIVAL
    python -m benchmarks.child QUESTION RIVAL WORKLOAD FILES SECONDS SETTINGS_AS_JSON

The harness starts these. The checked pass is also the warm-up: it fills the page cache, the allocator
and whatever the rival tunes. The answer is one line of JSON, the last on stdout.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from importlib import import_module

from benchmarks import workloads

LONG = 5.0  # a pass longer than this is steady by itself; a second would only cost time


def describe(question_name: str, rival_name: str) -> dict[str, object]:
    """The rows and settings of a rival, or which package it misses."""
    try:
        rival = import_module(f"benchmarks.{question_name}.{rival_name}")
    except ModuleNotFoundError as error:
        return {"missing": str(error)}
    return {"rows": rival.ROWS, "files": getattr(rival, "FILES", None)}


def measure(
    question_name: str,
    rival: str,
    workload_name: str,
    files: int,
    seconds: float,
    settings: dict[str, object],
) -> dict[str, object]:
    """One checked pass, then timed ones: at least two and for `seconds`, unless one alone is LONG."""
    question = import_module(f"benchmarks.{question_name}")
    function = getattr(import_module(f"benchmarks.{question_name}.{rival}"), question.FUNCTION)
    workload = getattr(question, "load", workloads.load)(workload_name, files)
    subject = question.prepare(workload)

    question.check(function(subject, **settings), workload)

    gc.collect()
    # A question whose work is done by processes of their own says how their time is counted.
    clock = getattr(question, "cpu", time.process_time)
    passes: list[float] = []
    cpu = 0.0
    while not passes or (sum(passes) < LONG and (len(passes) < 2 or sum(passes) < seconds)):
        used, start = clock(), time.perf_counter()
        answer = function(subject, **settings)
        question.consume(answer, workload)
        passes.append(time.perf_counter() - start)
        cpu += clock() - used
        # Taken down outside of the timing: inside, short passes of tf.data with autotune came out at about
        # 1.3 or 2.6 seconds, probably because its iterator waits for the autotuner.
        del answer
    return {"records": workload.records, "bytes": workload.bytes, "passes": passes, "cpu": cpu}


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(json.dumps(describe(*sys.argv[1:])))
    else:
        name, rival, workload, files, seconds, settings = sys.argv[1:]
        print(json.dumps(measure(name, rival, workload, int(files), float(seconds), json.loads(settings))))

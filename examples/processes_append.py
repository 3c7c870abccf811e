"""Independent processes append to one file, and none needs to know of the others (recipe 003.3)."""

import os
import subprocess
import sys
import tempfile

import feedline as fl

PROGRAM = """
import sys
import feedline as fl

path, name = sys.argv[1:]
# Opened once, not for each record; opening a file to append to it never cuts off what others wrote.
with fl.AppendWriter(path) as log:
    for step in range(500):
        log.write({"run": name, "step": step, "loss": 1 / (1 + step)})
"""

path = os.path.join(tempfile.mkdtemp(), "log.tfrecord")
runs = [subprocess.Popen([sys.executable, "-c", PROGRAM, path, name]) for name in ("a", "b", "c")]
for run in runs:
    run.wait()

features = {"run": fl.FixedLenFeature([], "string"), "step": fl.FixedLenFeature([], "int64")}
rows = list(fl.Dataset.from_tfrecords(path, features))
for name in (b"a", b"b", b"c"):
    steps = [int(row["step"]) for row in rows if row["run"] == name]
    print(f"run {name.decode()}: {len(steps)} steps, in order: {steps == sorted(steps)}")

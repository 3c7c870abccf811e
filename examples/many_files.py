"""Thousands of TFRecord files at once, with a few file handles, in one process (recipe 002.2)."""

import os
import resource
import tempfile
from pathlib import Path

import numpy as np

import feedline as fl

directory = tempfile.TemporaryDirectory()
rng = np.random.default_rng(0)
for number in range(2_000):
    path = Path(directory.name, f"{number:05}.tfrecord")
    with fl.TFRecordWriter(path, durable=False) as writer:
        writer.write_batch({"x": rng.normal(size=(10, 4)).astype("float32"), "file": np.full(10, number)})

# As on a machine whose administrator is strict: this process may have 64 files open, sockets and all.
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

features = {"x": fl.FixedLenFeature([4], "float32"), "file": fl.FixedLenFeature([], "int64")}
batches = (
    fl.Dataset.list_files(f"{directory.name}/*.tfrecord", shuffle=True, seed=1)
    .interleave(
        lambda path: fl.Dataset.from_tfrecords(path, features),
        cycle_length=1_024,  # files at a time, whatever `ulimit -n` says
        block_length=2,
        num_parallel_calls=fl.AUTOTUNE,
        deterministic=False,
    )
    .batch(500)
    .with_options(max_open_files=16)
)

files, elements, most_open = set(), 0, 0
for batch in batches:
    files.update(batch["file"].tolist())
    elements += len(batch["x"])
    most_open = max(most_open, len(os.listdir("/proc/self/fd")))

print(f"{elements:,} elements of {len(files):,} files")
print(f"file handles of the whole process, at most: {most_open}")

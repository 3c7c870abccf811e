"""A separate cache for each run, where isolation is wanted (recipe 000.2)."""

import tempfile
from pathlib import Path

import numpy as np

import feedline as fl

location = Path(tempfile.mkdtemp())


def prepare(number):
    return {"x": np.full(8, number, np.float32), "y": number % 2}


def dataset(run_id):
    return fl.Dataset.range(1000).map(prepare).cache(location / run_id).batch(100)


for run_id in ("first", "second"):
    total = sum(batch["x"].sum() for epoch in range(2) for batch in dataset(run_id))
    print(f"{run_id}: {total:,.0f}")

for folder in sorted(location.iterdir()):
    (entry,) = fl.Cache(folder).entries()
    print(f"{folder.name}: {entry.elements:,} elements in {entry.bytes:,} bytes")
    fl.Cache(folder).remove(entry.key)  # what is not needed any more

"""Several threads write one TFRecord file through one writer (recipe 003.1)."""

import os
import tempfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import feedline as fl

path = os.path.join(tempfile.mkdtemp(), "spirals.tfrecord")


def produce(number):
    """Each thread hands its examples over; the writer keeps them whole, and slows down who is too fast."""
    rng = np.random.default_rng(number)
    with writer.producer(f"arm {number}") as out:
        for _ in range(250):
            turns = rng.uniform(0, 2)
            out.write({"point": [turns * np.cos(turns), turns * np.sin(turns)], "arm": number})


# If a producer's block raises, the writer publishes nothing, though the exception itself stays in the future.
# Threads that you start yourself need no producer: one that writes and then dies has the same effect.
with fl.TFRecordWriter(path) as writer, ThreadPoolExecutor(4) as threads:
    for number in range(4):
        threads.submit(produce, number)

features = {"point": fl.FixedLenFeature([2], "float32"), "arm": fl.FixedLenFeature([], "int64")}
arms = [int(example["arm"]) for example in fl.Dataset.from_tfrecords(path, features)]
damaged = fl.records.verify(path).findings
print(f"{len(arms):,} examples, {arms.count(3)} of the last thread, {len(damaged)} damaged")

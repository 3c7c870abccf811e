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
    for _ in range(250):
        turns = rng.uniform(0, 2)
        writer.write({"point": [turns * np.cos(turns), turns * np.sin(turns)], "arm": number})


# A thread that fails makes result() raise, and so ends the block: then there is no file, and no half of one.
with fl.TFRecordWriter(path) as writer, ThreadPoolExecutor(4) as threads:
    for done in [threads.submit(produce, number) for number in range(4)]:
        done.result()

features = {"point": fl.FixedLenFeature([2], "float32"), "arm": fl.FixedLenFeature([], "int64")}
arms = [int(example["arm"]) for example in fl.Dataset.from_tfrecords(path, features)]
damaged = fl.records.verify(path).findings
print(f"{len(arms):,} examples, {arms.count(3)} of the last thread, {len(damaged)} damaged")

"""Several processes write a set of TFRecord files, which is there as a whole or not at all (recipe 003.2)."""

import os
import tempfile
from concurrent.futures import ProcessPoolExecutor

import numpy as np

import feedline as fl

directory = tempfile.mkdtemp()


def produce(writer, number):
    """Runs in a process of its own. A stream of examples, whose number nobody needs to know before."""
    rng = np.random.default_rng(number)
    with writer.producer(f"part {number}") as part:
        for _ in range(int(rng.integers(50, 100))):
            part.write_batch({"x": rng.normal(size=(10, 8)), "from": np.full(10, number)})
        return part.count


if __name__ == "__main__":  # ProcessPoolExecutor needs it, not the writer
    with fl.ShardedWriter(directory, shards=4) as writer, ProcessPoolExecutor(2) as processes:
        counts = list(processes.map(produce, [writer] * 6, range(6)))
    shards = fl.records.resolve(directory)
    print(f"{sum(counts):,} examples in", *map(os.path.basename, shards))
    print("in each:", *map(fl.records.count, shards))

    whole = os.path.join(directory, "whole.tfrecord")
    fl.records.merge(shards, whole)
    print(f"in one file: {fl.records.count(whole):,}")

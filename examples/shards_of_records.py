"""Several trainers, each with its own part of the records; together they see each one once (recipe 002.3)."""

import tempfile
from concurrent.futures import ProcessPoolExecutor

import numpy as np

import feedline as fl

TRAINERS = 3


def train(directory, rank):
    """Runs in a process of its own. Under torchrun and the like, `shard()` finds both numbers by itself."""
    part = (
        fl.Dataset.from_tfrecords(directory, {"id": fl.FixedLenFeature([], "int64")})
        .shard(TRAINERS, rank)
        .shuffle(1_000, seed=rank)
        .batch(32)
    )
    return [int(number) for batch in part for number in batch["id"]]


if __name__ == "__main__":  # ProcessPoolExecutor needs it
    directory = tempfile.mkdtemp()
    with fl.ShardedWriter(directory, shards=8) as writer:
        for first in range(0, 5_000, 100):
            writer.write_batch({"id": np.arange(first, first + 100)})

    with ProcessPoolExecutor(TRAINERS) as processes:
        parts = list(processes.map(train, [directory] * TRAINERS, range(TRAINERS)))
    print("elements of each trainer:", *map(len, parts))
    together = sorted(number for part in parts for number in part)
    print("each record once:", together == list(range(5_000)))

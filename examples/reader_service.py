"""Three independent processes ask one reader service for files as they go (recipe 002.1).

The service opens and reads all files, so its limits on file handles and memory hold for the three together.
Paths come from a queue with an explicit end: asking it until it is "empty" would lose those that come later.
"""

import multiprocessing as mp
import tempfile
from pathlib import Path

import numpy as np

import feedline as fl

PROCESSES = 3
SERVICE = "unix:auto"  # starts a service that ends by itself; or run:  feedline serve --max-open-files 16
FEATURES = {"id": fl.FixedLenFeature([], "int64")}


def script(paths, results):
    """Runs in a process of its own, and shares nothing with the others but the queue of paths."""

    def asked_for():
        while (path := paths.get()) is not None:
            yield path

    records = (
        fl.Dataset.from_generator(asked_for)
        .interleave(
            lambda path: fl.Dataset.from_tfrecords(path, FEATURES).distribute(SERVICE), cycle_length=4
        )
        .batch(64)
    )
    results.put([int(number) for batch in records for number in batch["id"]])


if __name__ == "__main__":
    directory = tempfile.TemporaryDirectory()
    for number in range(60):
        with fl.TFRecordWriter(Path(directory.name, f"{number:03}.tfrecord"), durable=False) as writer:
            writer.write_batch({"id": np.arange(100 * number, 100 * number + 100)})

    start = mp.get_context("spawn")
    paths, results = start.Queue(), start.Queue()
    processes = [start.Process(target=script, args=(paths, results)) for _ in range(PROCESSES)]
    for process in processes:
        process.start()
    for path in sorted(Path(directory.name).glob("*.tfrecord")):
        paths.put(str(path))
    for _ in processes:
        paths.put(None)  # the end, once for each

    parts = [results.get() for _ in processes]
    for process in processes:
        process.join()
    print("elements of each process:", *map(len, parts))
    together = sorted(number for part in parts for number in part)
    print("each record once:", together == list(range(6_000)))

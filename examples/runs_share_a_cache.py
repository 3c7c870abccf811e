"""Several runs cache the same dataset at the same moment (recipe 000.1): each element is computed once."""

import subprocess
import sys
import tempfile
import time

import numpy as np

import feedline as fl

ELEMENTS = 600


def prepare(number):
    time.sleep(0.002)  # stands for work that is worth keeping
    return {"x": np.random.default_rng(int(number)).normal(size=8), "y": number % 2}


def train(directory):
    prepared = fl.Dataset.range(ELEMENTS).map(prepare).cache(directory)
    batches = prepared.batch(50)
    total = sum(batch["x"].sum() for batch in batches)
    mapped = batches.stats().rows[1]
    print(f"sum {total:.6f}, of {ELEMENTS} elements computed here: {mapped.elements}")


if len(sys.argv) == 2:
    train(sys.argv[1])
else:
    with tempfile.TemporaryDirectory() as directory:
        runs = [subprocess.Popen([sys.executable, __file__, directory]) for _ in range(3)]
        assert [run.wait() for run in runs] == [0, 0, 0]
        print("and one more, which finds everything:")
        train(directory)

"""A cache in a Redis server, for runs on different hosts (recipe 000.3).

python cache_in_redis.py redis://localhost:6379/0
python cache_in_redis.py redis://localhost:6379/0 /a/directory/that/all/hosts/see
"""

import sys

import numpy as np

import feedline as fl

url = sys.argv[1] if len(sys.argv) > 1 else "redis://localhost:6379/0"
blobs = sys.argv[2] if len(sys.argv) > 2 else None  # for large parts; without, all is in Redis


def prepare(number):
    return {"x": np.random.default_rng(int(number)).normal(size=1024), "y": number % 2}


prepared = fl.Dataset.range(2000).map(prepare).cache(url, blobs=blobs)
batches = prepared.batch(100)
total = sum(batch["x"].sum() for batch in batches)
mapped = batches.stats().rows[1]
print(f"sum {total:.6f}, of 2000 elements computed here: {mapped.elements}")

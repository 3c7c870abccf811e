"""Two real processes under tf.distribute.MultiWorkerMirroredStrategy.

With a loop of its own: in Keras 3.15, `fit` fails under this strategy, with every tf.data.Dataset.
"""

import json

import pytest

from tests.adapt.fresh import output, start

WORKER = """
import json, sys
import tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
import numpy as np
import feedline as fl

dataset = fl.Dataset.range(48).shuffle(seed=1)
if sys.argv[1] == "sharded":
    dataset = dataset.shard()
with strategy.scope():
    weight = tf.Variable(1.0, aggregation=tf.VariableAggregation.MEAN)

@tf.function
def step(x):
    def train(x):
        gradient = tf.reduce_mean(tf.cast(x, tf.float32))
        total = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, gradient)
        weight.assign_sub(0.001 * total)
    strategy.run(train, args=(x,))

seen = []
for x in strategy.experimental_distribute_dataset(dataset.batch(8).to_tf()):
    step(x)
    for part in strategy.experimental_local_results(x):
        seen += part.numpy().tolist()
print(json.dumps({"seen": seen, "weight": float(weight.numpy())}))
"""


# Sharded by feedline, or whole: then it is TensorFlow that shards.
@pytest.mark.parametrize("how", ["sharded", "whole"])
def test_two_workers_see_each_element_once(how, free_port):
    pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
    workers = [f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"]
    both = [
        start(
            *("-W", "ignore", "-c", WORKER, how),
            TF_CONFIG=json.dumps(
                {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}
            ),
        )
        for index in range(2)
    ]
    found = [json.loads(output(process).splitlines()[-1]) for process in both]
    assert len(found[0]["seen"]) == len(found[1]["seen"]) == 24
    assert sorted(found[0]["seen"] + found[1]["seen"]) == list(range(48))
    assert found[0]["weight"] == found[1]["weight"] != 1

"""tf.train.Example built in Python, and tf.io.TFRecordWriter: what TensorFlow's guides show.

Of arrays, as people have them; and of lists, which is quicker where a whole batch is made lists at once.
"""

from __future__ import annotations

import tensorflow as tf

from benchmarks.encode.tf_train_example import encode
from benchmarks.workloads import Columns
from benchmarks.write_examples import Written

ROWS = {"tf_train_example": [{"values": "list"}], "tf_train_example_of_arrays": [{"values": "array"}]}


def write(batches: list[Columns], values: str) -> Written:
    written = Written()
    with tf.io.TFRecordWriter(written.path) as writer:
        for records in encode(batches, values):
            for record in records:
                writer.write(record)
    return written

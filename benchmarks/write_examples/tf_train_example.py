"""tf.train.Example built in Python, and tf.io.TFRecordWriter: what TensorFlow's guides show."""

from __future__ import annotations

import tensorflow as tf

from benchmarks.encode.tf_train_example import ROWS as ROWS
from benchmarks.encode.tf_train_example import encode
from benchmarks.workloads import Columns
from benchmarks.write_examples import Written


def write(batches: list[Columns], values: str) -> Written:
    written = Written()
    with tf.io.TFRecordWriter(written.path) as writer:
        for records in encode(batches, values):
            for record in records:
                writer.write(record)
    return written

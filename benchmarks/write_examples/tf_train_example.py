"""tf.train.Example built in Python, and tf.io.TFRecordWriter: what TensorFlow's guides show."""

from __future__ import annotations

import tensorflow as tf

from benchmarks.encode.tf_train_example import ROWS as ROWS
from benchmarks.encode.tf_train_example import encode
from benchmarks.write_examples import Subject


def write(subject: Subject, values: str) -> str:
    with tf.io.TFRecordWriter(subject.path) as writer:
        for records in encode(subject.batches, values):
            for record in records:
                writer.write(record)
    return subject.path

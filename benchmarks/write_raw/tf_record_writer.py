"""tf.io.TFRecordWriter, from one thread."""

from __future__ import annotations

import tensorflow as tf

from benchmarks.write_raw import Subject

ROWS = {"tf_record_writer": [{}]}


def write(subject: Subject) -> str:
    with tf.io.TFRecordWriter(subject.path) as writer:
        for record in subject.records:
            writer.write(record)
    return subject.path

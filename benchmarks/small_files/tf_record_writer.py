"""tf.io.TFRecordWriter, which never syncs; while it is open, others see half of a file."""

from __future__ import annotations

import tensorflow as tf

from benchmarks.small_files import Task, Written

ROWS = {"tf_record_writer": [{}]}


def write(task: Task) -> Written:
    written = task.begin()
    for number, record in enumerate(task.records):
        with tf.io.TFRecordWriter(written.path(number)) as writer:
            writer.write(record)
    return written

"""tf.io.TFRecordWriter, from one thread."""

from __future__ import annotations

import tensorflow as tf

from benchmarks.write_examples import Written

ROWS = {"tf_record_writer": [{}]}


def write(records: list[bytes]) -> Written:
    written = Written()
    with tf.io.TFRecordWriter(written.path) as writer:
        for record in records:
            writer.write(record)
    return written

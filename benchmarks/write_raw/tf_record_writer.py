"""tf.io.TFRecordWriter, from one thread."""

from __future__ import annotations

import tensorflow as tf

from benchmarks.write_examples import Written

ROWS = {"tf_record_writer": [{}]}


def write(parts: list[list[bytes]]) -> Written:
    written = Written()
    with tf.io.TFRecordWriter(written.path) as writer:
        for part in parts:
            for record in part:
                writer.write(record)
    return written

"""tf.data, as its guide to performance has it, on the TensorFlow backend."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import tensorflow as tf

from benchmarks.fit import BATCH, Subject

os.environ["KERAS_BACKEND"] = "tensorflow"
ROWS = {"tf_data": [{}]}


@cache
def data(subject: Subject) -> Any:
    dataset = tf.data.Dataset.from_tensor_slices((subject.x, subject.y))
    if subject.shuffled:
        dataset = dataset.shuffle(len(subject.x))
    return dataset.batch(BATCH).prefetch(tf.data.AUTOTUNE)

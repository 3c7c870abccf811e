"""feedline: to_keras() on the TensorFlow backend."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import feedline as fl
from benchmarks.fit import BATCH, Subject

os.environ["KERAS_BACKEND"] = "tensorflow"
ROWS = {"feedline": [{"prefetch": 0}], "feedline_prefetch": [{"prefetch": fl.AUTOTUNE}]}


@cache
def data(subject: Subject, prefetch: int) -> Any:
    dataset = fl.Dataset.from_tensor_slices((subject.x, subject.y))
    if subject.shuffled:
        dataset = dataset.shuffle(len(subject.x))
    return dataset.batch(BATCH).prefetch(prefetch).to_keras()

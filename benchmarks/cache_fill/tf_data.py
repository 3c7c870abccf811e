"""tf.data: without its cache, and with an empty one in files.

Records are parsed in whole batches, its quickest way, and cached one by one, as feedline's are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from benchmarks.cache_fill import Subject, augment, slow
from benchmarks.read_examples.tf_data import parser
from benchmarks.workloads import BATCH, load

ROWS = {"tf_data_uncached": [{"cached": False}], "tf_data": [{"cached": True}]}


def run(subject: Subject, cached: bool) -> Iterator[Any]:
    records = tf.data.TFRecordDataset(list(subject.files), None, 8 << 20).take(subject.count)
    rows = parser(load("img"), 2)(records.batch(BATCH)).unbatch()
    if subject.kind != "parse":
        rows = rows.map(_in_python({"augment": augment, "slow": slow}[subject.kind]))
    if cached:
        rows = rows.cache(f"{subject.location()}/tf")
    return rows.batch(BATCH).prefetch(tf.data.AUTOTUNE).as_numpy_iterator()


def _in_python(function: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[Any], Any]:
    def of_image(image: Any) -> Any:
        return function({"image": image, "label": 0})["image"]

    return lambda row: {**row, "image": tf.numpy_function(of_image, [row["image"]], tf.uint8)}

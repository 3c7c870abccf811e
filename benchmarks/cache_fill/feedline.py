"""feedline: without the cache, with an empty one, and with nothing but the writing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np

import feedline as fl
from benchmarks.cache_fill import Subject, augment, slow
from benchmarks.workloads import BATCH

ROWS = {
    "uncached": [{"cached": False}],
    "written": [{"cached": False, "written": True}],
    "feedline": [{"cached": True}],
}
FEATURES = {"image": fl.RawFeature((3072,), np.uint8), "label": fl.FixedLenFeature([], np.int64)}


def run(subject: Subject, cached: bool, written: bool = False) -> Iterator[Any]:
    rows = fl.Dataset.from_tfrecords(list(subject.files), FEATURES).take(subject.count)
    if subject.kind != "parse":
        rows = rows.map({"augment": augment, "slow": slow}[subject.kind])
    if cached:
        rows = rows.cache(subject.location())
    batches = iter(rows.batch(BATCH))
    return _written(batches, subject.location()) if written else batches


def _written(batches: Iterator[Any], location: str) -> Iterator[Any]:
    with open(f"{location}/batches", "wb", buffering=0) as file:
        for batch in batches:
            os.writev(file.fileno(), list(batch.values()))
            yield batch

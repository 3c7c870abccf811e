"""feedline: without the cache, and with an empty one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import feedline as fl
from benchmarks.cache_fill import Subject, augment, slow
from benchmarks.workloads import BATCH

ROWS = {"uncached": [{"cached": False}], "feedline": [{"cached": True}]}
FEATURES = {"image": fl.RawFeature((3072,), np.uint8), "label": fl.FixedLenFeature([], np.int64)}


def run(subject: Subject, cached: bool) -> Iterator[Any]:
    rows = fl.Dataset.from_tfrecords(list(subject.files), FEATURES).take(subject.count)
    if subject.kind != "parse":
        rows = rows.map({"augment": augment, "slow": slow}[subject.kind])
    if cached:
        rows = rows.cache(subject.location())
    return iter(rows.batch(BATCH))

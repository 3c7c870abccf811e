"""feedline: save_tfrecords without workers, and with 2."""

from __future__ import annotations

import feedline as fl
from benchmarks.save import Subject, slow

ROWS = {"one_process": [{"workers": 0}], "feedline": [{"workers": 2}]}


def save(subject: Subject, workers: int) -> str:
    fl.Dataset.range(subject.count).map(slow).save_tfrecords(subject.directory, shards=4, workers=workers)
    return subject.directory

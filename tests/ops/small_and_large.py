"""Files that interleave reads together, and the same files one by one."""

from __future__ import annotations

import feedline as fl
from feedline import Dataset

FIXED = {"id": fl.FixedLenFeature((), "int64"), "name": fl.FixedLenFeature((), "string")}
RAGGED = {"id": fl.FixedLenFeature((), "int64"), "tags": fl.VarLenFeature("string")}


def together(paths, features, *cycle, **options) -> Dataset:
    source = Dataset.from_tensor_slices(paths)
    return source.interleave(lambda path: Dataset.from_tfrecords(path, features, **options), *cycle)


def one_by_one(paths, features, *cycle, **options) -> Dataset:
    """The same, but after a function files are not read together."""
    source = Dataset.from_tensor_slices(paths).map(lambda path: path)
    return source.interleave(lambda path: Dataset.from_tfrecords(path, features, **options), *cycle)


def events(dataset) -> list:
    """The elements and the errors, in their order."""
    found, iterator = [], iter(dataset)
    while True:
        try:
            found.append(next(iterator))
        except StopIteration:
            return found
        except Exception as error:
            found.append((type(error).__name__, str(error).splitlines()[0]))

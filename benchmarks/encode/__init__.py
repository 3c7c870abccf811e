"""How fast do arrays in memory become serialized tf.train.Examples?

A rival defines `encode(batches, **settings)`: for each batch of columns, in order, it yields a list with
one record, as bytes, for each row. The batches are views of the arrays of one file of the workload, and
hold 256 rows. Nothing is written to disk, and no list outlives the next: a writer would be done with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

import numpy as np
from google.protobuf.descriptor_pool import Default as descriptors
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from benchmarks.digest import digest
from benchmarks.workloads import BATCH, Columns, Workload, columns

FUNCTION = "encode"
WORKLOADS = ("dense", "tab")
FILES = 1
BASES = ("tf_train_example",)


def prepare(workload: Workload) -> list[Columns]:
    whole = columns(workload.name, 0)
    starts = range(0, workload.records, BATCH)
    return [{key: column[at : at + BATCH] for key, column in whole.items()} for at in starts]


def check(answer: Iterator[list[bytes]], workload: Workload) -> None:
    """The untimed pass: protobuf must find in the records what the columns held."""
    example = _example_class()
    parsed = [example.FromString(record).features.feature for records in answer for record in records]
    content = {}
    for key, feature in workload.features.items():
        values = [getattr(row[key], f"{feature.kind}_list").value for row in parsed]
        dtype = np.float32 if feature.kind == "float" else np.int64
        content[key] = np.array(values, dtype).reshape(len(parsed), *feature.shape)
    if digest(content) != workload.digest:
        raise AssertionError("the records do not hold what the columns held")


def consume(answer: Iterator[list[bytes]], workload: Workload) -> None:
    """The timed pass: count the records."""
    count = sum(len(records) for records in answer)
    if count != workload.records:
        raise AssertionError(f"{count} records of {workload.records}")


def _example_class() -> type[Message]:
    """The Example that this process has. A second definition of it cannot be loaded beside the first."""
    try:
        found = descriptors().FindMessageTypeByName("tensorflow.Example")
    except KeyError:
        import_module("tfrecord.example_pb2")
        found = descriptors().FindMessageTypeByName("tensorflow.Example")
    return GetMessageClass(found)

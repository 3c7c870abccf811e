"""How fast do arrays in memory become serialized tf.train.Examples?

A rival defines `encode(columns, **settings) -> list[bytes]`: one record for each row of the columns,
which are the arrays of one file of the workload. Nothing is written to disk.
"""

from __future__ import annotations

from importlib import import_module

import numpy as np
from google.protobuf.descriptor_pool import Default as descriptors
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from benchmarks.digest import digest
from benchmarks.workloads import Columns, Workload, columns

FUNCTION = "encode"
WORKLOADS = ("dense", "tab")
FILES = 1
BASES = ("tf_train_example",)


def prepare(workload: Workload) -> Columns:
    return columns(workload.name, 0)


def check(answer: list[bytes], workload: Workload) -> None:
    """The untimed pass: protobuf must find in the records what the columns held."""
    example = _example_class()
    parsed = [example.FromString(record).features.feature for record in answer]
    content = {}
    for key, feature in workload.features.items():
        values = [getattr(row[key], f"{feature.kind}_list").value for row in parsed]
        dtype = np.float32 if feature.kind == "float" else np.int64
        content[key] = np.array(values, dtype).reshape(len(parsed), *feature.shape)
    if digest(content) != workload.digest:
        raise AssertionError("the records do not hold what the columns held")


def consume(answer: list[bytes], workload: Workload) -> None:
    """The timed pass: the records are there."""
    if len(answer) != workload.records:
        raise AssertionError(f"{len(answer)} records of {workload.records}")


def _example_class() -> type[Message]:
    """The Example that this process has. A second definition of it cannot be loaded beside the first."""
    try:
        found = descriptors().FindMessageTypeByName("tensorflow.Example")
    except KeyError:
        import_module("tfrecord.example_pb2")
        found = descriptors().FindMessageTypeByName("tensorflow.Example")
    return GetMessageClass(found)

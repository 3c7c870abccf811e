"""feedline feeds training loops. The public names, and nothing else."""

import sys as _sys
from typing import Any as _Any

if _sys.platform != "linux":
    raise ImportError(
        f"feedline runs on Linux only, and this is {_sys.platform!r}. "
        "Use a Linux machine, a container, or WSL 2."
    )

from feedline import records
from feedline.block import Ragged
from feedline.cache.location import Cache
from feedline.dataset import Dataset
from feedline.errors import (
    CacheError,
    CorruptRecord,
    FeedlineError,
    MissingDependency,
    SchemaError,
    ServiceError,
    UsageError,
    WorkerDied,
    WorkerError,
    WriteError,
)
from feedline.graph import INFINITE as INFINITE_CARDINALITY
from feedline.graph import UNKNOWN as UNKNOWN_CARDINALITY
from feedline.graph.arguments import AUTOTUNE
from feedline.graph.rng import rng
from feedline.ops.from_generator import Shard
from feedline.records import example
from feedline.records.features import (
    FixedLenFeature,
    FixedLenSequenceFeature,
    ListFeature,
    RaggedFeature,
    RawFeature,
    SequenceFeatures,
    TensorFeature,
    VarLenFeature,
)
from feedline.tracebacks import debug
from feedline.write import AppendWriter, ShardedWriter, TFRecordWriter

__all__ = [
    "AUTOTUNE",
    "INFINITE_CARDINALITY",
    "UNKNOWN_CARDINALITY",
    "AppendWriter",
    "Cache",
    "CacheError",
    "CorruptRecord",
    "Dataset",
    "FeedlineError",
    "FixedLenFeature",
    "FixedLenSequenceFeature",
    "ListFeature",
    "MissingDependency",
    "Ragged",
    "RaggedFeature",
    "RawFeature",
    "SchemaError",
    "SequenceFeatures",
    "ServiceError",
    "Shard",
    "ShardedWriter",
    "TFRecordWriter",
    "TensorFeature",
    "UsageError",
    "VarLenFeature",
    "WorkerDied",
    "WorkerError",
    "WriteError",
    "debug",
    "example",
    "records",
    "rng",
]


def __getattr__(name: str) -> _Any:
    if name == "__version__":  # read when asked for: importlib.metadata takes longer to import than feedline
        from importlib.metadata import version

        return version("feedline")
    if name == "keras":
        from importlib import import_module

        return import_module("feedline.keras")
    raise AttributeError(f"module 'feedline' has no attribute {name!r}")

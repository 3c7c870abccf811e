"""Which shard is this process's, as the launcher of a training with several processes says it.

It is read from TF_CONFIG, from RANK and WORLD_SIZE (torchrun), and from jax.distributed where that was
initialised. Where several say it, they must agree.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, TypeAlias

from feedline.errors import UsageError

_REMEDY = "\n  Or give them yourself:  shard(num_shards, index)"


Part: TypeAlias = tuple[int, int]
"""num_shards and index."""


def part_of_this_process() -> Part | None:
    """The shard that is this process's; None where nothing says it."""
    said = {
        name: part
        for name, part in (
            ("TF_CONFIG", _tf_config()),
            ("RANK and WORLD_SIZE", _torchrun()),
            ("jax.distributed", _jax()),
        )
        if part is not None
    }
    if len(set(said.values())) > 1:
        claims = ", ".join(f"{name} says {index} of {shards}" for name, (shards, index) in said.items())
        raise UsageError(f"shard(): which shard is this process's? {claims}.{_REMEDY}")
    return next(iter(said.values()), None)


def part_or_error() -> Part:
    part = part_of_this_process()
    if part is None:
        raise UsageError(
            "shard(): nothing says which shard is this process's: neither TF_CONFIG nor RANK and WORLD_SIZE "
            f"is set, and jax.distributed is not initialised.{_REMEDY}"
        )
    return part


def _tf_config() -> Part | None:
    text = os.environ.get("TF_CONFIG")
    if not text:
        return None
    try:
        config = json.loads(text)
        cluster, task = config.get("cluster"), config.get("task")
        if not cluster or not task:
            return None  # a single process is configured so
        chiefs = [("chief", i) for i in range(len(cluster.get("chief", ())))]
        trainers = chiefs + [("worker", i) for i in range(len(cluster.get("worker", ())))]
        me = task["type"], int(task["index"])
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UsageError(f"shard(): TF_CONFIG is not what TensorFlow expects: {error!r}.{_REMEDY}") from None
    if me not in trainers:
        raise UsageError(
            f"shard(): TF_CONFIG says that this process is {me[0]} {me[1]}, which is no worker of its "
            f"cluster.{_REMEDY}"
        )
    return len(trainers), trainers.index(me)


def _torchrun() -> Part | None:
    rank, size = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
    if rank is None and size is None:
        return None
    try:
        shards, index = int(size or ""), int(rank or "")
    except ValueError:
        shards, index = 0, 0
    if not 0 <= index < shards:
        raise UsageError(
            f"shard(): RANK={rank} and WORLD_SIZE={size}: both must be set, RANK to 0 to WORLD_SIZE - 1."
            f"{_REMEDY}"
        )
    return shards, index


def _jax() -> Part | None:
    # Importing jax would take a second, and asking it for its processes would start its devices.
    jax: Any = sys.modules.get("jax")
    if jax is None or not jax.distributed.is_initialized():
        return None
    return jax.process_count(), jax.process_index()

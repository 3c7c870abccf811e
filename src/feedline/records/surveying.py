"""What files of unknown content hold: every record is read, and its features counted."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import islice
from typing import Any

from feedline import _native
from feedline.errors import CorruptRecord, SchemaError
from feedline.records.faults import foreign_file
from feedline.records.feature_texts import Known
from feedline.records.features import (
    Feature,
    FixedLenFeature,
    FixedLenSequenceFeature,
    SequenceFeatures,
    VarLenFeature,
)
from feedline.records.paths import Files, compression_name, resolve
from feedline.records.reading import Progress, batches


def survey(
    files: Files, *, compression: str | None = "auto", progress: Progress | None = None
) -> dict[str, Any]:
    """Counts over all records of the files, as a dict that can be printed as JSON.

    `records`, and how many of them are `malformed` (no tf.train.Example); `damaged` places, which were
    passed over; `sizes` of the records (least, mean, most); how the files are stored (`compression`); for
    each key of `context` and `feature_lists` the records that have it, the kinds seen, and (least, most)
    values, bytes and steps.

    A file of another known format is CorruptRecord. `progress` is called with the number of file bytes read
    so far, over all files.
    """
    found = _native.Survey()
    kind = compression_name(compression)
    stored: set[str] = set()
    damaged = count = total = passed = 0
    least, most = None, 0
    for path in resolve(files):
        before = count, damaged
        for reader, batch in batches(path, kind, resync=True):
            stored.add(reader.compression)
            found.add_batch(batch)
            damaged += len(batch.take_skipped())
            count += len(batch)
            total += batch.bytes
            if len(batch):
                sizes = batch.sizes
                least = int(sizes.min()) if least is None else min(least, int(sizes.min()))
                most = max(most, int(sizes.max()))
            if progress is not None:
                progress(passed + reader.consumed)
        foreign = foreign_file(path) if count == before[0] and damaged > before[1] else None
        if foreign is not None:
            raise foreign
        passed += os.path.getsize(path)
    result = found.result()
    return result | {
        "damaged": damaged,
        "sizes": (least or 0, total / count if count else 0.0, most),
        "compression": "/".join(sorted(stored)),
    }


def survey_start(path: str) -> Known | None:
    """The features of the first records of a plain file; None if there are none that read them all."""
    found = _native.Survey()
    try:
        for _, batch in islice(batches(path, "none", resync=False), 1):
            found.add_batch(batch)
        result = found.result()
        good = result["records"] - result["malformed"]
        if not good or result["sequence"] or result["too_many_keys"]:
            return None
        context = result["context"].items()
        return {key: _inferred(key, seen, good) if _kind(key, seen) else None for key, seen in context}
    except (CorruptRecord, SchemaError, OSError):
        return None


def from_survey(result: Mapping[str, Any]) -> dict[str, Feature] | SequenceFeatures:
    """The features of records that a Survey has seen; `result` is what its result() gives.

    A key that every record has with the same number of values becomes fixed-length, any other one
    VarLenFeature. A key that is there but never with a value has no kind, and is left out.
    """
    good = result["records"] - result["malformed"]
    if not good:
        raise SchemaError(
            f"none of the {result['records']:,} records is a tf.train.Example, so it has no features",
            remedy="To get the raw bytes:  leave `features` out",
        )
    if result["too_many_keys"]:
        raise SchemaError(
            f"there are more than {len(result['context']) + len(result['feature_lists']):,} different keys: "
            "the writer seems to have put data into them",
            remedy="To read some of them:  pass `features` with the keys you want",
        )
    context, steps = (
        {key: infer(key, seen, good) for key, seen in result[part].items() if _kind(key, seen)}
        for part, infer in (("context", _inferred), ("feature_lists", _inferred_steps))
    )
    if not context and not steps:
        raise SchemaError(
            f"none of the {good:,} records has a feature with a value, so there are none to infer",
            remedy="To get the raw bytes:  leave `features` out",
        )
    return SequenceFeatures(context, steps) if result["sequence"] else context


def _inferred(key: str, seen: Mapping[str, Any], records: int) -> Feature:
    dtype = _kind(key, seen)
    fewest, most = seen["values"]
    always = seen["records"] == records and "none" not in seen["kinds"]
    return FixedLenFeature(_row_shape(most), dtype) if always and fewest == most > 0 else VarLenFeature(dtype)


def _inferred_steps(key: str, seen: Mapping[str, Any], records: int) -> Feature:
    dtype = _kind(key, seen)
    fewest, most = seen["values"]
    if fewest == most > 0 and "none" not in seen["kinds"]:
        return FixedLenSequenceFeature(_row_shape(most), dtype, allow_missing=seen["records"] < records)
    return VarLenFeature(dtype)


def _row_shape(count: int) -> tuple[int, ...]:
    return () if count == 1 else (count,)


def _kind(key: str, seen: Mapping[str, Any]) -> str:
    """Our name of the one kind that was seen, or "" when no value ever was."""
    kinds = {kind: count for kind, count in seen["kinds"].items() if kind != "none"}
    if len(kinds) > 1:
        counts = ", ".join(f"{count:,} times as {kind}" for kind, count in kinds.items())
        raise SchemaError(
            f"it comes in several kinds: {counts}",
            feature=key,
            remedy="To read the other features:  pass `features` without this one",
        )
    return next(iter(kinds), "").replace("bytes", "string")

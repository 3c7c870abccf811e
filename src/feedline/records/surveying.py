"""What files of unknown content hold: every record is read, and its features counted."""

from __future__ import annotations

import os
from typing import Any

from feedline import _native
from feedline.records.features import Feature, SequenceFeatures, from_survey
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

    `progress` is called with the number of file bytes read so far, over all files.
    """
    found = _native.Survey()
    kind = compression_name(compression)
    stored: set[str] = set()
    damaged = count = total = passed = 0
    least, most = None, 0
    for path in resolve(files):
        for reader, batch in batches(path, kind, resync=True):
            stored.add(reader.compression)
            found.add_batch(batch)
            damaged += len(batch.take_skipped()) + len(batch.check())
            count += len(batch)
            total += batch.bytes
            if len(batch):
                sizes = batch.sizes
                least = int(sizes.min()) if least is None else min(least, int(sizes.min()))
                most = max(most, int(sizes.max()))
            if progress is not None:
                progress(passed + reader.consumed)
        passed += os.path.getsize(path)
    result = found.result()
    return result | {
        "damaged": damaged,
        "sizes": (least or 0, total / count if count else 0.0, most),
        "compression": "/".join(sorted(stored)),
    }


def infer_features(
    files: Files, *, compression: str | None = "auto"
) -> dict[str, Feature] | SequenceFeatures:
    """The `features` that fit every record of the files, which are all read.

    A key that every record has with the same number of values is a FixedLenFeature, any other one a
    VarLenFeature. Records of tf.train.SequenceExample give SequenceFeatures.
    """
    return from_survey(survey(files, compression=compression))

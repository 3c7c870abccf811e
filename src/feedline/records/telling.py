"""What the writer of files says of their features: in the manifest of a set, or in the sidecar of a file."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable

from feedline import _native
from feedline.errors import CorruptRecord, SchemaError, UsageError
from feedline.records.beside import index_path
from feedline.records.common_features import common_features
from feedline.records.feature_texts import Known, features_of, from_json, least_bytes, to_json
from feedline.records.features import FixedLenFeature, VarLenFeature
from feedline.records.indexing import store_features, stored_features
from feedline.records.shard_files import manifest_paths, prefix_of, read_manifest

_MOST_INFLATED = 1032  # bytes that deflate makes of one
_REMEDY = "To read the files whatever it says, pass `features` yourself."


class Told:
    """What is told of files. Each manifest is read once."""

    def __init__(self) -> None:
        self._sets: dict[tuple[str, str], tuple[dict[str, int], Known] | None] = {}  # with sizes by name

    def of(self, path: str) -> Known | None:
        """None if there is nothing; CorruptRecord if it cannot be true."""
        features = self._in_manifest(path)
        if features is None and (text := stored_features(path)) is not None:
            try:
                return _checked(from_json(text), path)
            except ValueError as error:
                raise _untrue(index_path(path), error) from None
        return features

    def _in_manifest(self, path: str) -> Known | None:
        directory, name = os.path.split(path)
        prefix = prefix_of(name)
        if prefix is None:
            return None
        if os.path.basename(directory).startswith(f".{prefix}.set-"):  # committed, but not in its place yet
            directory = os.path.dirname(directory)
        if (directory, prefix) not in self._sets:
            self._sets[directory, prefix] = _read(directory, prefix)
        found = self._sets[directory, prefix]
        if found is None or found[0].get(name) != os.path.getsize(path):
            return None
        try:
            return _checked(found[1], path)
        except ValueError as error:
            raise _untrue(_manifest_path(directory, prefix), error) from None


def _read(directory: str, prefix: str) -> tuple[dict[str, int], Known] | None:
    manifest = read_manifest(directory, prefix)
    if manifest is None or manifest.features is None:
        return None
    try:
        return {shard.name: shard.bytes for shard in manifest.shards}, features_of(manifest.features)
    except ValueError as error:
        raise _untrue(_manifest_path(directory, prefix), error) from None


def _manifest_path(directory: str, prefix: str) -> str:
    return next(filter(os.path.exists, manifest_paths(directory, prefix)))


def _checked(features: Known, path: str) -> Known:
    """UsageError if no record of the file could hold them: a reader takes memory for what is told."""
    size = os.path.getsize(path)
    for key, feature in features.items():
        if least_bytes(feature) > size and least_bytes(feature) > _inflated_size(path):
            raise UsageError(f"feature {key!r}: {feature!r} is larger than any record of {path}")
    return features


def _inflated_size(path: str) -> float:
    """At most; no bound for a file without records, of which anything may be told."""
    reader = _native.open_records(os.fsencode(path), "auto", False, False)
    if isinstance(reader, _native.Fault):
        return math.inf
    batch, _ = reader.next(1, 1)
    if not len(batch):
        return math.inf
    return os.path.getsize(path) * (1 if reader.compression == "none" else _MOST_INFLATED)


def _untrue(path: str, error: ValueError) -> CorruptRecord:
    what = f"its feature description is invalid: {error}".rstrip(".")
    return CorruptRecord(what, path=path, remedy=_REMEDY)


def told_in_common(paths: Iterable[str]) -> Known | None:
    """What is true of the records of all files; None where one tells nothing, or they disagree."""
    told = Told()
    common: Known | None = None
    for path in paths:
        try:
            features = told.of(path)
            if features is None:
                return None
            common = features if common is None else common_features(common, features)
        except (SchemaError, CorruptRecord):
            return None
    return common


def tell(path: str, features: Known | None, *, durable: bool = True) -> None:
    """Keep in the file's sidecar what its records do not say themselves. OSError if that fails."""
    if not needs_telling(features):
        return
    assert features is not None
    text = to_json(features)
    if text is not None:
        store_features(path, text, durable=durable)


def needs_telling(features: Known | None) -> bool:
    """Whether the records do not say all of it themselves."""
    return features is not None and not all(map(_is_plain, features.values()))


def _is_plain(feature: object) -> bool:
    """Whether a survey of the records finds the same."""
    if isinstance(feature, FixedLenFeature):
        return len(feature.shape) < 2 and feature.shape != (1,)
    return feature is None or isinstance(feature, VarLenFeature)

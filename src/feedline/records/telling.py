"""What the writer of files says of their features: in the manifest of a set, or in the sidecar of a file."""

from __future__ import annotations

import os
from collections.abc import Iterable

from feedline.errors import CorruptRecord, SchemaError
from feedline.records.beside import index_path
from feedline.records.common_features import common_features
from feedline.records.feature_texts import Known, features_of, from_json, to_json
from feedline.records.features import FixedLenFeature, VarLenFeature
from feedline.records.indexing import store_features, stored_features
from feedline.records.shard_files import Manifest, manifest_paths, prefix_of, read_manifest

_REMEDY = "To read the files whatever it says, pass `features` yourself."


class Told:
    """What is told of files. Each manifest is read once."""

    def __init__(self) -> None:
        self._sets: dict[tuple[str, str], tuple[Manifest, Known] | None] = {}

    def of(self, path: str) -> Known | None:
        """None if there is nothing; CorruptRecord if it cannot be true."""
        features = self._in_manifest(path)
        if features is None and (text := stored_features(path)) is not None:
            try:
                return from_json(text)
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
        if found is None or not any(
            shard.name == name and shard.bytes == os.path.getsize(path) for shard in found[0].shards
        ):
            return None
        return found[1]


def _read(directory: str, prefix: str) -> tuple[Manifest, Known] | None:
    manifest = read_manifest(directory, prefix)
    if manifest is None or manifest.features is None:
        return None
    try:
        return manifest, features_of(manifest.features)
    except ValueError as error:
        path = next(filter(os.path.exists, manifest_paths(directory, prefix)))
        raise _untrue(path, error) from None


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

"""Which files `files` means: a path, a glob, a directory, or a list of them."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable

from feedline.errors import UsageError
from feedline.records.beside import is_feedlines
from feedline.records.shard_files import members, prefix_of_manifest
from feedline.records.unfinished import unfinished

_Path = str | bytes | os.PathLike[str]  # bytes: what a dataset of paths has as its elements
Files = _Path | Iterable[_Path]


def resolve(files: Files) -> list[str]:
    """The paths that `files` means, those of one glob or directory sorted.

    A directory stands for the files in it, hidden ones apart; it is not searched deeper. Of files that a
    manifest tells of, it means the shards in the manifest, whatever others are left of older sets.
    Directories and globs leave out what feedline wrote beside the data. A path that exists is taken as it is,
    even if it holds `*`, `?` or `[`.
    """
    if isinstance(files, str | bytes | os.PathLike):
        return _resolve_one(os.fsdecode(files))
    if not isinstance(files, Iterable):
        raise UsageError(f"files={files!r}: give a path, a glob, a directory, or a list of them.")
    paths = [path for item in files for path in _resolve_one(os.fsdecode(item))]
    if not paths:
        raise UsageError("files is empty: give a path, a glob, a directory, or a list of them.")
    return paths


def _resolve_one(path: str) -> list[str]:
    if os.path.isdir(path):
        found = _in_directory(path)
        if not found:
            raise UsageError(f"{path}: the directory holds no files.{unfinished(path)}")
        return found
    if glob.has_magic(path) and not os.path.exists(path):
        matches = glob.glob(path, recursive=True)
        found = sorted(
            match for match in matches if _is_data(os.path.basename(match)) and not os.path.isdir(match)
        )
        if not found:
            raise UsageError(f"{path}: no file matches this pattern.{unfinished(os.path.dirname(path))}")
        return found
    return [path]


def _in_directory(path: str) -> list[str]:
    """Listed until no set is new: a listing is not of one moment, and may miss a manifest and have its
    shards."""
    names = _listed(path)
    while True:
        found = members(path, names)
        again = _listed(path)
        if found is not None and _manifests(again) == _manifests(names):
            return found
        names = again


def _manifests(names: list[str]) -> list[str]:
    return [name for name in names if prefix_of_manifest(name) is not None]


def _listed(path: str) -> list[str]:
    """The files in a directory that are data or manifests."""
    with os.scandir(path) as entries:
        return sorted(
            entry.name
            for entry in entries
            if entry.is_file()
            and (prefix_of_manifest(entry.name) or (entry.name[0] not in "._" and _is_data(entry.name)))
        )


def _is_data(name: str) -> bool:
    return not is_feedlines(name) and prefix_of_manifest(name) is None


def compression_name(compression: str | None) -> str:
    """tf.data's names ("GZIP", "ZLIB", "" or None) and "auto", as the native core spells them."""
    if compression is None or compression == "":
        return "none"
    name = compression.lower()
    if name not in ("auto", "none", "gzip", "zlib"):
        raise UsageError(f'compression={compression!r}: use "auto", "GZIP", "ZLIB", or None for plain files.')
    return name

"""Which files `files` means: a path, a glob, a directory, or a list of them."""

from __future__ import annotations

import glob
import os
import stat
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
    Directories and globs leave out what feedline wrote beside the data, and what is no regular file: a pipe
    is read only if it is named. A link that leads nowhere is kept, so that reading it fails. A path that
    exists is taken as it is, even if it holds `*`, `?` or `[`.
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
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):  # ValueError: a path with a zero byte
        mode = None
    if mode is not None and stat.S_ISDIR(mode):
        found = _in_directory(path)
        if not found:
            raise UsageError(f"{path}: the directory holds no files.{unfinished(path)}")
        return found
    if mode is None and glob.has_magic(path):
        matches = glob.glob(path, recursive=True)
        found = sorted(match for match in matches if _is_data(os.path.basename(match)) and is_file(match))
        if not found:
            raise UsageError(
                f"{path}: no file matches this pattern.\n"
                f"  {closest_parent(path)}{unfinished(os.path.dirname(path))}"
            )
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
            if is_file(entry)
            and (prefix_of_manifest(entry.name) or (entry.name[0] not in "._" and _is_data(entry.name)))
        )


def is_file(path: str | os.DirEntry[str]) -> bool:
    """Is it a regular file, or a link that leads nowhere? Directories, pipes, sockets and devices are not."""
    try:
        if isinstance(path, os.DirEntry) and path.is_file(follow_symlinks=False):
            return True  # without asking the file system
        return stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return True


def closest_parent(pattern: str) -> str:
    """A sentence for errors: down to where does the path of a pattern exist?"""
    directory = os.path.abspath(pattern)
    while glob.has_magic(directory) or not os.path.isdir(directory):
        directory = os.path.dirname(directory)
    said = f"The closest directory that exists is {directory}"
    return (
        f"{said}." if os.access(directory, os.R_OK | os.X_OK) else f"{said}, and this user may not list it."
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

"""Which format files have: their suffix says so, or the user."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Protocol

from feedline.convert import from_csv, from_images, from_jsonl, from_npz, from_parquet
from feedline.convert.batch import Batch
from feedline.errors import UsageError
from feedline.records.paths import resolve

INFER_FROM = 10_000  # rows


class Format(Protocol):
    """A module: all sources go into one set of records, which are alike."""

    @property
    def SUFFIXES(self) -> tuple[str, ...]: ...

    def read(self, paths: Sequence[str], infer_from: int) -> Iterator[Batch]: ...


FORMATS: dict[str, Format] = {
    "csv": from_csv,
    "images": from_images,
    "jsonl": from_jsonl,
    "npz": from_npz,
    "parquet": from_parquet,
}


def sources_of(files: Sequence[str], name: str | None = None) -> tuple[Format, list[str]]:
    """The format of the files, and the paths of all that are meant.

    A directory stands for the files in it, or for a folder of images; globs are taken too.
    """
    if name is not None and name not in FORMATS:
        raise UsageError(f"format={name!r}: use one of {', '.join(FORMATS)}.")
    paths = [path for file in files for path in _paths(file, name)]
    names = sorted({name or _name_of(path) for path in paths})
    if len(names) > 1:
        raise UsageError(
            f"the sources are of different formats, {' and '.join(names)}. Convert them one after the other, "
            "each into a directory of its own."
        )
    for path in paths:
        _check(path, is_folder=names == ["images"])
    return FORMATS[names[0]], paths


def files_of(path: str) -> list[str]:
    """All that will be read for this source."""
    if not os.path.isdir(path):
        return [path]
    inside = [os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names]
    return [file for file in inside if os.path.isfile(file)]


def _paths(file: str, name: str | None) -> list[str]:
    if not os.path.isdir(file):
        return resolve(file)
    if name is not None:
        return [file] if name == "images" else resolve(file)
    with os.scandir(file) as entries:
        visible = [entry for entry in entries if not entry.name.startswith((".", "_"))]
    known = sorted(entry.path for entry in visible if _by_suffix(entry.name))
    if known and any(entry.is_dir() for entry in visible):
        raise UsageError(
            f"{file}: it holds folders, and files such as {os.path.basename(known[0])} beside them. To say "
            f"what to convert:  --format images, or --format {_by_suffix(known[0])}"
        )
    return known or [file]


def _name_of(path: str) -> str:
    os.stat(path)  # one that is missing is told of first
    name = "images" if os.path.isdir(path) else _by_suffix(path)
    if name is None:
        raise UsageError(
            f"{path}: its name does not tell its format. To say which it is:  --format {'|'.join(FORMATS)}"
        )
    return name


def _by_suffix(path: str) -> str | None:
    suffix = os.path.splitext(path)[1].lower()
    return next((name for name, each in FORMATS.items() if suffix in each.SUFFIXES), None)


def _check(path: str, is_folder: bool) -> None:
    os.stat(path)
    if is_folder and not os.path.isdir(path):
        raise UsageError(f"{path}: it is no directory. Give the one that holds the folders of the classes.")
    if not is_folder and not os.path.isfile(path):
        raise UsageError(
            f"{path}: it is no regular file, and is read more than once. Save it to a file first."
        )

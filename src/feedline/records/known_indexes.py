"""The index of a file, from wherever it is kept: a sidecar or the index of its directory."""

from __future__ import annotations

import os
from contextlib import suppress

from feedline.records.beside import index_paths
from feedline.records.directory_index import DirectoryIndex, Entry, read_directory_index
from feedline.records.indexing import Offsets, load_sidecar


class Indexes:
    """The indexes of files that are there and true. That of a directory is read once."""

    def __init__(self) -> None:
        self._directories: dict[str, DirectoryIndex | None] = {}

    def of(self, path: str) -> Offsets | None:
        """The offsets of the records and the end of the last; None without an index that is true.

        The directory's index comes first, because it answers for all files at once.
        """
        offsets = self.in_directory(path)
        if offsets is None and (stored := load_sidecar(path)) is not None:
            return stored[1]
        return offsets

    def in_directory(self, path: str) -> Offsets | None:
        """From the index of the directory alone."""
        entry = self._entry(path)
        with suppress(OSError):
            if entry is not None and entry.is_true_of(path):
                return entry.offsets
        return None

    def has_stale(self, path: str) -> bool:
        """Is there an index of a file, of which `of` says that it is not true?"""
        return self._entry(path) is not None or any(map(os.path.exists, index_paths(path)))

    def _entry(self, path: str) -> Entry | None:
        directory, name = os.path.split(path)
        if directory not in self._directories:
            self._directories[directory] = read_directory_index(directory)
        found = self._directories[directory]
        return None if found is None else found.get(name)


def load_index(path: str) -> Offsets | None:
    """The offsets of a file's records and the end of the last; None without an index that is true."""
    return Indexes().of(path)

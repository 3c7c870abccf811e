"""Files of a set (records/shard_files), read one after another while a writer may replace the set.

The manifest is replaced first (records/publishing). So a file that was opened while the manifest was still
the one from the beginning is of that set. Who reads several asks after each was opened.

Between the new manifest and the last rename, names are those of the new set and files still those of the old.
Nobody begins to read them then.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from types import TracebackType

from feedline.errors import CorruptRecord, UsageError
from feedline.records import shard_files
from feedline.records.shard_files import manifest_paths, prefix_of, read_manifest, set_path

_Stamp = tuple[int, ...]


class SameSet:
    """The sets that these files are of, at this moment.

    As a context manager, it checks that they still are when the block ends, also when the block failed:
    perhaps that was why.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        """Waits for a commit that is giving these files their names. UsageError if its writer was killed."""
        names: dict[tuple[str, str], list[str]] = {}
        for directory, name in map(os.path.split, paths):
            if (prefix := prefix_of(name)) is not None:
                names.setdefault((directory, prefix), []).append(name)
        self._stamps = {}
        for place, of_set in names.items():
            manifests = manifest_paths(*place)
            stamp = _stamp(manifests)
            if stamp is not None:
                self._stamps[manifests] = stamp
                _wait_for_names(*place, stamp, of_set)

    def check(self) -> None:
        """UsageError when one of them was replaced since."""
        for paths, stamp in self._stamps.items():
            if _stamp(paths) != stamp:
                raise UsageError(
                    f"{paths[0]}: The set was replaced while you were reading it.\n"
                    "  Create the Dataset again and start over."
                )

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None or issubclass(kind, Exception):
            self.check()


def _stamp(paths: tuple[str, ...]) -> _Stamp | None:
    """What no two manifests have in common, of the first that is there; None when there is none."""
    for path in paths:
        with suppress(OSError):
            facts = os.stat(path)
            return facts.st_dev, facts.st_ino, facts.st_mtime_ns, facts.st_size
    return None


def _wait_for_names(directory: str, prefix: str, stamp: _Stamp, names: list[str]) -> None:
    id = _id_of(directory, prefix, stamp)
    if id is None:
        return
    place = set_path(directory, prefix, id)
    until = time.monotonic() + shard_files.PATIENCE
    while waiting := [name for name in names if os.path.exists(os.path.join(place, name))]:
        if time.monotonic() > until:
            raise UsageError(
                f"{os.path.join(directory, waiting[0])}: a new set has been committed, but its writer was "
                "killed before this file got its name. What has the name is of the old set.\n"
                f"  Read the directory as a whole:  {directory or '.'}\n"
                "  The next writer there gives the files their names."
            )
        time.sleep(0.005)


@lru_cache(maxsize=64)  # of a set of thousands of files that are read one by one, once
def _id_of(directory: str, prefix: str, stamp: _Stamp) -> str | None:
    """That of the manifest; None if it cannot be read, which matters only to those who read by it."""
    try:
        manifest = read_manifest(directory, prefix)
    except (OSError, CorruptRecord):
        return None
    return None if manifest is None else manifest.id

"""Files of a set (records/shard_files), read one after another while a writer may replace the set.

The manifest is replaced first (records/publishing). So a file that was opened while the manifest was still
the one from the beginning is of that set. Who reads several asks after each was opened.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from types import TracebackType

from feedline.errors import UsageError
from feedline.records.shard_files import manifest_paths, prefix_of


class SameSet:
    """The sets that these files are of, at this moment.

    As a context manager, it checks that they still are when the block ends, also when the block failed:
    perhaps that was why.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        places = {(directory, prefix_of(name)) for directory, name in map(os.path.split, paths)}
        manifests = [manifest_paths(directory, prefix) for directory, prefix in places if prefix is not None]
        self._stamps = {paths: stamp for paths in manifests if (stamp := _stamp(paths)) is not None}

    def check(self) -> None:
        """UsageError when one of them was replaced since."""
        for paths, stamp in self._stamps.items():
            if _stamp(paths) != stamp:
                raise UsageError(
                    f"{paths[0]}: another set has taken the place of this one while it was read. What was "
                    "read so far is of the old one, and what follows would be of the new.\n"
                    "  Read it again from the beginning, with a new Dataset."
                )

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None or issubclass(kind, Exception):
            self.check()


def _stamp(paths: tuple[str, ...]) -> tuple[int, ...] | None:
    """What no two manifests have in common, of the first that is there; None when there is none."""
    for path in paths:
        with suppress(OSError):
            facts = os.stat(path)
            return facts.st_dev, facts.st_ino, facts.st_mtime_ns, facts.st_size
    return None

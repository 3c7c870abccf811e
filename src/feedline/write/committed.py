"""A set that was committed before, for a program that is run again with resume=True: all is there."""

from __future__ import annotations

import os
from typing import Any, NoReturn

from feedline.errors import UsageError
from feedline.records.shard_files import Manifest
from feedline.write.keys import key_of
from feedline.write.parts import home_of


class Committed:
    """Stands where a Staging does. Producers have their counts and keys, and nothing can be added."""

    def __init__(self, directory: str, manifest: Manifest) -> None:
        self._directory = directory
        self._manifest = manifest
        self.own = CommittedProducer(self, None)

    def producer(self, name: str) -> CommittedProducer:
        return CommittedProducer(self, name)

    def progress(self, name: str | None) -> tuple[int, Any]:
        id = os.path.basename(home_of("", name, is_opener=True))
        for one in self._manifest.producers:
            if one.id == id:
                return one.records, key_of(one.last_key)
        return 0, None

    def record(self, example: Any) -> NoReturn:
        shards = self._manifest.shards
        records = sum(shard.records for shard in shards)
        raise UsageError(
            f"{self._directory}: the set is complete: {records:,} records in {len(shards):,} shards were "
            "committed, so resume=True finds nothing to go on with. A producer that goes on from its count "
            "and last_key has nothing left to write.\n"
            "  To write another set in its place, open the writer without resume."
        )

    records = record


class CommittedProducer:
    """Stands where a PartWriter does."""

    def __init__(self, whole: Committed, name: str | None) -> None:
        self._whole = whole
        self.count, self.last_key = whole.progress(name)

    def note_thread(self) -> None:
        """There is nothing to write."""

    def append(self, record: bytes, key: Any) -> NoReturn:
        self._whole.record(record)

    def append_many(self, payloads: Any, offsets: Any, key: Any) -> NoReturn:
        self._whole.record(payloads)

    def close(self) -> None:
        """There is nothing to seal."""

    def enter(self) -> None:
        """There is nothing to write."""

    def leave(self, error: BaseException | None) -> None:
        """What is complete stays."""

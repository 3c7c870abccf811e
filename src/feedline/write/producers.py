"""Producers of a writer in one process: what they failed to write keeps the writer from a good end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol

from feedline.errors import UsageError
from feedline.write.thread_deaths import describe, unwatch, watch


class _Writer(Protocol):
    def write(self, example: Mapping[str, Any] | bytes) -> None: ...
    def write_batch(self, columns: Mapping[str, Any] | Sequence[bytes]) -> None: ...


class Producers:
    """Which `with` blocks are open, and which of them, or which threads that wrote, failed."""

    def __init__(self, wrote_here: Callable[[], bool]) -> None:
        self.wrote_here = wrote_here
        self._open: list[str] = []
        self._failed: dict[str, str] = {}  # error -> who: a block that fails may kill its thread, too
        self._watch = watch(self)

    def begin(self, name: str) -> None:
        self._open.append(name)

    def end(self, name: str, error: BaseException | None) -> None:
        if error is not None:
            self._failed.setdefault(describe(error), f"producer {name!r}")
        self._open.remove(name)

    def thread_died(self, who: str, error: str) -> None:
        self._failed.setdefault(error, who)

    def failure(self) -> str | None:
        """The first, and how many more there are; None if all was written."""
        failed = [f"{who} failed with {error}" for error, who in self._failed.items()]
        failed += [f"producer {name!r} is still in its `with` block" for name in self._open]
        if not failed:
            return None
        return failed[0] + (f" (and {len(failed) - 1} more)" if len(failed) > 1 else "")

    def close(self) -> None:
        """Hear of threads no more."""
        unwatch(self._watch)


class FileProducer:
    """A source of records. Write in its `with` block, so that the writer knows whether all was written."""

    def __init__(self, writer: _Writer, producers: Producers, name: str) -> None:
        self.name = checked_name(name)
        self.write = writer.write
        self.write_batch = writer.write_batch
        self._producers = producers

    def __enter__(self) -> FileProducer:
        self._producers.begin(self.name)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._producers.end(self.name, error)


def checked_name(name: Any) -> str:
    if not isinstance(name, str) or not name:
        raise UsageError(f"producer({name!r}): a name is a text that is not empty.")
    return name

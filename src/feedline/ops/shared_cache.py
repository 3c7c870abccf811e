"""cache(location): elements kept where other runs find them, at the same time too.

What is cached is the first iteration of the steps before, as for the cache in memory. Rows are read-only.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Any

from feedline.block import Block
from feedline.cache.filling import IndexedFiller, StreamedFiller
from feedline.cache.opening import open_store
from feedline.cache.plan import Plan
from feedline.cache.reading import IndexedStream, StreamedStream, gather
from feedline.cache.shared import SharedEntry
from feedline.graph import Context, Indices, Node, Peek, State, Stream, fingerprint
from feedline.graph.context import FIRST_EPOCH


class _Handle:
    """The entry of one node, open in this process. It does not travel."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._shared: SharedEntry | None = None
        self._process = 0

    def get(self, node: SharedCache) -> SharedEntry:
        with self._lock:
            if self._shared is None or self._process != os.getpid():
                store = open_store(node.location)
                self._shared = SharedEntry(store, fingerprint(node.input))
                self._process = os.getpid()
            return self._shared

    def __reduce__(self) -> tuple[Any, ...]:
        return _Handle, ()


@dataclass(frozen=True, eq=False)
class SharedCache(Node):
    input: Node
    location: str = field(compare=False)
    handle: _Handle = field(default_factory=_Handle, init=False, compare=False, repr=False)

    def length(self) -> int | None:
        return self.input.length()

    def cardinality(self) -> int:
        return self.input.cardinality()

    def spec(self, peek: Peek | None) -> Any:
        return self.input.spec(peek)

    def gather(self, indices: Indices, context: Context) -> Block:
        context, shared = context.at_epoch(FIRST_EPOCH), self.handle.get(self)
        if len(indices):
            with shared.surviving():
                block = gather(self._indexed(shared, context), indices)
                if block is not None:
                    return block
        return context.gather(self.input, indices)

    def open(self, context: Context, state: State) -> Stream:
        context, shared = context.at_epoch(FIRST_EPOCH), self.handle.get(self)
        if self.length() is not None:
            return IndexedStream(shared, self._indexed(shared, context), str(self), state)
        filler = StreamedFiller(shared, self.input, context, partial(self._draft, shared))
        return StreamedStream(shared, filler, str(self), state)

    def _indexed(self, shared: SharedEntry, context: Context) -> IndexedFiller:
        return IndexedFiller(shared, self.input, context, partial(self._draft, shared))

    def _draft(self, shared: SharedEntry, seeds: Sequence[int], part_rows: int | None) -> Plan:
        return Plan(key=shared.key, length=self.length(), part_rows=part_rows, seeds=tuple(seeds))

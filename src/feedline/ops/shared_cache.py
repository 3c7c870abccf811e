"""cache(location): elements kept where other runs find them, also while they are being computed.

What is cached is the first iteration of the steps before, as for the cache in memory. Rows are read-only.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Any, NamedTuple
from weakref import WeakSet, ref

from feedline.block import Block
from feedline.cache.dividing import DividedFiller, sharing, steps_to_divide
from feedline.cache.eviction import Bound
from feedline.cache.filling import IndexedFiller, StreamedFiller
from feedline.cache.opening import absolute, open_store
from feedline.cache.plan import Plan, how_shared
from feedline.cache.reading import IndexedStream, StreamedStream, gather
from feedline.cache.shared import SharedEntry
from feedline.cache.siblings import changes_since
from feedline.errors import UsageError
from feedline.graph import Context, Fingerprint, Indices, Node, Peek, State, Stream, strict_fingerprint
from feedline.graph.arguments import bytes_of
from feedline.graph.context import FIRST_EPOCH, Services

_ON_UNAVAILABLE = ("raise", "compute")


class _Opened(NamedTuple):
    shared: SharedEntry
    fingerprint: Fingerprint
    process: int

    def is_of(self, node: SharedCache) -> bool:
        """Is it still the node's? Globals of its functions, and its files, may have changed meanwhile: what
        is computed from now on must not be added to what was. What is complete is read as it is."""
        if self.process != os.getpid():
            return False
        return self.shared.manifest is not None or node.find_fingerprint() == self.fingerprint


class _Handle:
    """The entry of one node, open in this process as long as the node lives. It does not travel."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._opened: _Opened | None = None
        self._iteration: ref[Services] | None = None  # the last that asked
        _handles.add(self)

    def get(self, node: SharedCache, context: Context) -> _Opened:
        with self._lock:
            opened = self._opened
            is_new = self._iteration is None or self._iteration() is not context.services
            if opened is None or (is_new and not opened.is_of(node)):
                opened = self._opened = node.open_entry()
            self._iteration = ref(context.services)
            return opened

    @property
    def filling(self) -> str:
        """How the entry is filled, as far as this process has seen it."""
        return "" if self._opened is None else self._opened.shared.filling

    def __reduce__(self) -> tuple[Any, ...]:
        return _Handle, ()


_handles: WeakSet[_Handle] = WeakSet()


def _unlock() -> None:
    """In a forked child: the thread that opens an entry just then is not there."""
    for handle in tuple(_handles):
        handle._lock = Lock()


os.register_at_fork(after_in_child=_unlock)


@dataclass(frozen=True, eq=False)
class SharedCache(Node):
    input: Node
    location: str = field(compare=False)
    version: str | None = None
    cache_limit: int | str | None = field(default=None, compare=False)  # once it is made, in bytes
    blobs: str | None = field(default=None, compare=False)
    on_unavailable: str = field(default="raise", compare=False)
    handle: _Handle = field(default_factory=_Handle, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.version is not None and not isinstance(self.version, str):
            raise UsageError(f"cache(version={self.version!r}): give a string, such as '1'.")
        if self.cache_limit is not None:
            object.__setattr__(self, "cache_limit", bytes_of("cache", "cache_limit", self.cache_limit))
        if self.on_unavailable not in _ON_UNAVAILABLE:
            raise UsageError(
                f"cache(on_unavailable={self.on_unavailable!r}): give 'raise', or 'compute' to go on without."
            )
        object.__setattr__(self, "location", absolute(self.location))
        if self.blobs is not None:
            object.__setattr__(self, "blobs", absolute(self.blobs))

    def length(self) -> int | None:
        return self.input.length()

    def cardinality(self) -> int:
        return self.input.cardinality()

    def spec(self, peek: Peek | None) -> Any:
        return self.input.spec(peek)

    def gather(self, indices: Indices, context: Context) -> Block:
        context, opened = context.at_epoch(FIRST_EPOCH), self.handle.get(self, context)
        filler = self._indexed(opened, context)
        if len(indices):
            with opened.shared.surviving():
                block = gather(filler, indices)
                if block is not None:
                    return block
        return filler.gather(indices)

    def open(self, context: Context, state: State) -> Stream:
        context, opened = context.at_epoch(FIRST_EPOCH), self.handle.get(self, context)
        plan = opened.shared.plan
        was_streamed = plan is not None and plan.length is None  # by a run without the index of a file, say
        if self.length() is not None and not was_streamed:
            return IndexedStream(opened.shared, self._indexed(opened, context), str(self), state)
        is_divided = bool(steps_to_divide(self.input)) and (plan is None or plan.part_rows is not None)
        kind = DividedFiller if is_divided else StreamedFiller
        filler = kind(opened.shared, self.input, context, partial(self._draft, opened, None))
        return StreamedStream(opened.shared, filler, str(self), state)

    def _indexed(self, opened: _Opened, context: Context) -> IndexedFiller:
        return IndexedFiller(opened.shared, self.input, context, partial(self._draft, opened, self.length()))

    def _draft(
        self, opened: _Opened, length: int | None, seeds: Sequence[int], part_rows: int | None
    ) -> Plan:
        return Plan(
            key=opened.shared.key,
            length=length,
            part_rows=part_rows,
            seeds=tuple(seeds),
            steps=opened.fingerprint.steps,
            pipeline=opened.fingerprint.parts,
            sharing=sharing(self.input),
        )

    def remark(self) -> str:
        return how_shared(sharing(self.input), self.handle.filling)

    def find_fingerprint(self) -> Fingerprint:
        return strict_fingerprint(self.input, self.version)

    def open_entry(self) -> _Opened:
        found = self.find_fingerprint()
        store = open_store(self.location, blobs=self.blobs)
        bound = Bound(store, self.cache_limit) if isinstance(self.cache_limit, int) else None
        shared = SharedEntry(
            store,
            str(found),
            goes_on=self.on_unavailable == "compute",
            make_room=bound.make_room if bound else None,
        )
        if shared.plan is None and not shared.is_lost:
            changes = changes_since(store, found)
            if changes is not None:
                logging.getLogger("feedline").warning(changes)
        return _Opened(shared, found, os.getpid())

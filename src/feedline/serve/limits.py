"""What the service may use, divided among its hosts, and how a host keeps to its part."""

from __future__ import annotations

from dataclasses import dataclass, replace

from feedline.graph import Context, Node
from feedline.graph.memory import Budget
from feedline.records import open_files
from feedline.run import pool
from feedline.run.cores import usable_cores
from feedline.run.services import LocalServices
from feedline.serve.protocol import Share

_WINDOWS = 64 << 20  # bytes of blocks that a host keeps for its readers, where nobody says


@dataclass(frozen=True)
class Limits:
    """Of the service as a whole; None where nobody said."""

    max_open_files: int | None = None
    memory_limit: int | None = None
    workers: int | None = None

    def share(self, hosts: int) -> Share:
        """The part of each host. Each gets at least one of everything, as it cannot work with less."""

        def part(total: int) -> int:
            return max(1, total // max(1, hosts))

        return Share(
            0 if self.workers == 0 else part(usable_cores() if self.workers is None else self.workers),
            None if self.memory_limit is None else part(self.memory_limit),
            part(open_files.limit() if self.max_open_files is None else self.max_open_files),
        )


class Kept:
    """The share of this host, which changes when hosts come and go."""

    def __init__(self) -> None:
        self._share = Limits().share(1)
        self.producers = 0  # that divide the memory

    def keep(self, share: Share) -> None:
        self._share = share
        pool.limit_workers(max(1, share.workers))
        open_files.set_limit(share.files)

    def window_bytes(self) -> int:
        """For the blocks of one producer."""
        total = _WINDOWS if self._share.memory is None else self._share.memory // 2
        return max(1, total // max(1, self.producers))

    def context(self, node: Node, context: Context) -> Context:
        """The context in which a pipeline runs here. Half of the memory is for what is in flight in it."""
        context = replace(context.served_by(_Limited(self)), budget=Budget())
        if self._share.workers == 0:
            context = replace(context, workers=0)
        if self._share.memory is not None:
            context = context.limited(node, max(1, self._share.memory // 2 // max(1, self.producers)))
        return context

    @property
    def workers(self) -> int:
        return self._share.workers


class _Limited(LocalServices):
    def __init__(self, kept: Kept) -> None:
        super().__init__(is_remote=True)
        self._kept = kept

    def _workers_for(self, wanted: int, context: Context) -> int:
        return min(super()._workers_for(wanted, context), max(1, self._kept.workers))

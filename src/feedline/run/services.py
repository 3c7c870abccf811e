"""What streams ask of their Context, done in this process."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from feedline.block import Block
from feedline.graph import Context, Cursor, Indices, Node, State, Stream, Wholes, random_nodes, tree
from feedline.graph.alike import NoElement
from feedline.graph.arguments import AUTOTUNE
from feedline.graph.consumption import Consumption
from feedline.graph.job import Doing, Job, NotOpened, Opener
from feedline.graph.span import Span
from feedline.run.background import Background
from feedline.run.by_number import ByNumber
from feedline.run.clock import deadline
from feedline.run.cores import usable_cores
from feedline.run.here import Here
from feedline.run.if_it_pays import IfItPays
from feedline.run.measure import Measure, Measured, MeasuredWithin
from feedline.run.parallel import Larger, Parallel, Team
from feedline.run.pool import are_idle
from feedline.run.processes import Crew, ProcessTeam
from feedline.run.remote import RemoteStream
from feedline.run.threads import ThreadTeam
from feedline.run.worker_process import STARTING, SentJob

# A block that a user's function fills is handed on after so long: a slow function should not keep its first
# results back until a block is full.
_PATIENCE = 0.005


# Functions that were worth being sent elsewhere: the next iteration begins with that.
_worth: WeakSet[Callable[..., Any]] = WeakSet()


def _worthwhile(function: Callable[..., Any], team: Team) -> Team:
    with suppress(TypeError):  # not all can be remembered
        _worth.add(function)
    return team


def _is_worth(function: Callable[..., Any]) -> bool:
    try:
        return function in _worth
    except TypeError:
        return False


# Specs of nodes, by the seeds of their random steps.
_peeked: WeakKeyDictionary[Node, dict[tuple[int, ...], Any]] = WeakKeyDictionary()
_PEEKED = 16  # elements that are looked at to tell a spec
_PEEKED_SECONDS = 1.0  # for slow functions, fewer

_JOBS_KEPT = 4  # for spans
_NODES_KEPT = 4  # of each step of datasets that functions made


class LocalServices:
    """One for each iteration; it holds the iteration's measurements."""

    def __init__(
        self, root: Node | None = None, *, is_remote: bool = False, looks_only: bool = False
    ) -> None:
        """`is_remote`: the iteration belongs to another process."""
        self.consumption = None if is_remote else Consumption()
        self.looks_only = looks_only
        self.measures: dict[Any, Measure] = {}
        self.cores = usable_cores()
        self._gathered: WeakSet[Node] = WeakSet()  # nodes that were read by index
        self._lock = Lock()
        self._crew: Crew | None = None  # of all steps that need processes
        self._sent: dict[Job, SentJob] = {}  # for spans, the last used at the end
        self._own = frozenset(tree(root)) if root is not None else frozenset()

    def measured(self, node: Node, stream: Stream, context: Context) -> Stream:
        measure = self._measure_of(node)
        measure.opened += 1
        if context.budget.is_limited:
            return MeasuredWithin(stream, measure, node, context)
        return Measured(stream, measure)

    def read_whole(self, node: Node, wait: Callable[[], Wholes]) -> Wholes:
        measure = self._measure_of(node)
        found: list[Wholes] = []

        def block() -> Block | None:
            found.append(wait())
            return found[0].block

        measure.count(block)
        measure.opened += sum(rows is not None for rows in found[0].rows)
        return found[0]

    def gathered(self, node: Node, indices: Indices, context: Context) -> Block:
        measure = self._measure_of(node)
        if node not in self._gathered:
            self._gathered.add(node)
            measure.opened += 1
        return measure.count(lambda: node.gather(indices, context))

    def _measure_of(self, node: Node) -> Measure:
        # Functions may make datasets without end: they are told apart by where they were made.
        key = node if node in self._own else (type(node), node.site)
        measure = self.measures.get(key)
        if measure is None:
            measure = self.measures.setdefault(key, Measure([]))
        if len(measure.nodes) < _NODES_KEPT and node not in measure.nodes:
            measure.nodes.append(node)
        return measure

    def background(
        self, start: Callable[[State], Stream], state: State, context: Context, rows: int | None
    ) -> Stream:
        if rows is None:
            return IfItPays(start, state, context)
        return Background(start, state, context, rows)

    def parallel(self, job: Job, rows: Cursor, context: Context, calls: int, executor: str | None) -> Doing:
        size = self._workers_for(calls, context)
        if context.rows_by_number:
            job = ByNumber(job, rows.node, replace(context, rows_by_number=False), rows.state()[0])

        is_span = isinstance(rows.node, Span)  # others of the same step follow

        def make() -> Team:
            return ThreadTeam(job, size) if executor == "thread" else self._processes(job, size, is_span)

        seconds = 0.0 if executor == "thread" or are_idle() else STARTING
        if calls == AUTOTUNE and (seconds or not _is_worth(job.function)):
            larger = Larger(lambda: _worthwhile(job.function, make()), seconds)
            return Parallel(job.step, Here(job), rows, context, larger)
        return Parallel(job.step, make(), rows, context)

    def remote(self, opener: Opener, context: Context, state: State, workers: int) -> Stream:
        size = self._workers_for(workers, context)
        with self._lock:
            crew = self._open_crew()
            for budget in context.open_files:
                size = min(size, budget.workers_for(crew, size))
            if size:
                return RemoteStream(crew, size, opener, context, state)
        try:
            return opener.open(replace(context, workers=0), state)
        except Exception as error:
            raise NotOpened(error) from error

    def _processes(self, job: Job, size: int, is_span: bool) -> ProcessTeam:
        sent = self._sent_for_spans(job) if is_span else None
        with self._lock:
            return ProcessTeam(self._open_crew(), sent or SentJob(job), size, keep_job=sent is not None)

    def _sent_for_spans(self, job: Job) -> SentJob | None:
        """A job that is done for one span after another is pickled and sent once; None if it cannot be told
        whether it is the same."""
        try:
            sent = self._sent.pop(job, None) or SentJob(job)
        except TypeError:  # it has no hash
            return None
        self._sent[job] = sent
        while len(self._sent) > _JOBS_KEPT:
            del self._sent[next(iter(self._sent))]
        return sent

    def _open_crew(self) -> Crew:
        if self._crew is None or not self._crew.is_open:
            self._crew = Crew()
        return self._crew

    def _workers_for(self, wanted: int, context: Context) -> int:
        size = self.cores if wanted == AUTOTUNE else wanted
        return size if context.workers in (None, AUTOTUNE) else min(size, context.workers)

    def peek(self, node: Node, context: Context) -> Any:
        seeds = tuple(one.seed_in(context) for one in random_nodes(node))
        known = _peeked.setdefault(node, {})
        if seeds not in known:
            services = LocalServices(looks_only=True)
            looking = Context(services, workers=0, open_files=context.open_files, seeds=context.seeds)
            if context.budget.is_limited:
                sizes = {name: getattr(context, name) for name in ("block_rows", "block_bytes", "budget")}
                looking = replace(looking, **sizes)
            known[seeds] = _looked_at(looking, node)
        return known[seeds]

    def clock(self) -> float:
        return time.perf_counter()

    def deadline(self) -> Callable[[], bool]:
        return deadline(_PATIENCE)


def _looked_at(context: Context, node: Node) -> Any:
    """The spec of its first elements that do not fail. NoElement when there is none."""
    rows, clock = Cursor(context, node), context.services.clock
    blocks: list[Block] = []
    errors: list[Exception] = []
    until = clock() + _PEEKED_SECONDS
    try:
        # A block may have been handed on early, and have elements of one shape only.
        while (left := _PEEKED - rows.passed - len(errors)) > 0 and (not blocks or clock() < until):
            try:
                block = rows.take(left)
            except Exception as error:
                errors.append(error)
                continue
            if block is None:
                break
            blocks.append(block)
    finally:
        rows.close()
    if not blocks and errors:
        raise errors[0]
    if not blocks:
        raise NoElement(
            f"{node}: there is no element that could tell the element_spec.\n"
            "  Functions are called, not traced, so only their results tell it. Ask the same pipeline over "
            "data that is not empty."
        )
    return Block.concat(blocks).spec

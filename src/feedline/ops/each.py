"""Streams that give a result for each element of their input, or an error in its place."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace

from feedline.block import Block
from feedline.graph import Context, Cursor, Node, State, Stream
from feedline.graph.calls import Collector, blame
from feedline.graph.job import Done, Job
from feedline.graph.node import goes_by_number

_FIRST_ROWS = 16  # as long as nobody knows how large the results are


class EachStream(Stream):
    def __init__(self, node: Node, context: Context, input: Node, state: State) -> None:
        self._node = node
        self._context = context
        self._rows = Cursor(context, input, state)
        self._results = Collector(node)
        self._most_rows = _FIRST_ROWS
        self._error: Exception | None = None  # of the next element, after the results in front of it

    def next(self, limit: int) -> Block | None:
        if self._error is None:
            block = self._rows.peek(min(limit, self._most_rows))
            if block is None:
                return None
            self._results.clear()  # of what an interrupt left behind
            self._error = self._fill(block)
            if self._error is not None:
                blame(self._error, self._node, self._rows.passed + len(self._results))
            if len(self._results):
                self._rows.advance(len(self._results))
                made = self._results.block()
                self._most_rows = self._context.rows_of(made.nbytes // made.rows)
                return made
        assert self._error is not None
        error, self._error = self._error, None
        self._rows.advance(1)
        raise error

    @abstractmethod
    def _fill(self, block: Block) -> Exception | None:
        """Add the results of its first elements, one at least or the error that came instead of the next."""

    def state(self) -> State:
        return self._rows.state()

    def close(self) -> None:
        self._rows.close()


class ParallelStream(Stream):
    """The results of a job that is done in several places at once."""

    def __init__(
        self,
        job: Job,
        context: Context,
        input: Node,
        state: State,
        places: int,
        executor: str | None = None,
        rows_by_number: bool = False,
    ) -> None:
        """With `rows_by_number`, the job is given rows that were only told by their numbers, if possible."""
        # Where the context has readers of spans, rows come from them, even if they could be gathered.
        # A budget of open files is kept by reading here.
        is_free = not context.span_openers and not context.open_files
        if rows_by_number and goes_by_number(input) and is_free:
            context = replace(context, rows_by_number=True)
        self._rows = Cursor(context, input, state)
        self._doing = context.services.parallel(job, self._rows, context, places, executor)
        self.account = self._doing.account

    def next(self, limit: int) -> Block | None:
        done = self._next_done()
        return None if done is None else done.results

    def _next_done(self) -> Done | None:
        try:
            return self._doing.next()
        finally:
            self.waited, self.deaths = self._doing.waited, self._doing.deaths
            self.workers, self.ahead = self._doing.workers, self._doing.ahead

    def state(self) -> State:
        return self._doing.after

    def close(self) -> None:
        self._doing.close()
        self._rows.close()

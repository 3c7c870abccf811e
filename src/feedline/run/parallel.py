"""A job done for the rows of a stream in several places at once, with the results in the order of the rows.

Rows are sent as many at a time as take some ten milliseconds, fewer towards the end: so neither the sending
matters, nor the waiting for the last of them. Rows whose worker died are sent again in smaller parts, in the
end one by one, which tells of which of them it died.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections import deque
from collections.abc import Callable
from math import inf, isqrt
from typing import NamedTuple, Protocol

from feedline.block import Block
from feedline.errors import UsageError, WorkerDied
from feedline.graph import INFINITE, UNKNOWN, Context, Cursor, State
from feedline.graph.alike import Alike
from feedline.graph.calls import blame
from feedline.graph.cursor import moved
from feedline.graph.job import Done, Outcome
from feedline.graph.span import Span
from feedline.run.clock import SECONDS

# What it costs to have a row done elsewhere, in seconds, with some to spare: less is done here.
_SENDING, _SENDING_BYTE = 1e-6, 0.5e-9
_TRIAL = 0.01  # seconds, after which that is decided: the first few rows mostly cost their beginning
_LATELY = 2  # tasks, of which the quicker one counts: the first call of a function may take long
_GAIN = 0.5  # of the time that a larger team saves: two places, say
_GROWTH = 8  # times the rows of the last task, at most
_AHEAD = 2  # tasks for each place: the one at work, and the next
_MOST_AHEAD = 16
_MOST_BYTES = 256 << 20  # of rows and results at a time
_DEATHS = 3  # of workers at a row, the last of them at it alone, after which it is given up
_SMALLEST = 8  # times smaller than usual, at the end
_FEW = 64  # rows, which are sent again one by one


class Ticket(Protocol):
    """For rows that were sent."""

    @property
    def seconds(self) -> float:
        """How long the work took."""
        ...

    @property
    def is_over(self) -> bool:
        """As far as is known without waiting."""
        ...

    def wait(self) -> Outcome:
        """The outcome, when it is there. WorkerDied when it never will be."""
        ...


class Team(Protocol):
    """Several places where one job is done."""

    size: int  # not counting the one who waits for results

    def send(self, rows: Block, first: int) -> Ticket: ...

    def close(self, wait: bool = True) -> None:
        """`wait`: until its threads have ended."""
        ...


class Larger(NamedTuple):
    """A team to go on with when that turns out to pay."""

    make: Callable[[], Team]
    seconds: float  # until it is there


class _Task(NamedTuple):
    rows: Block
    before: State  # of the cursor
    number: int  # of the first row
    ticket: Ticket | None = None  # when it was sent
    deaths: int = 0


class _Failed(NamedTuple):
    error: Exception
    after: State  # of the cursor, after the row


class Parallel:
    def __init__(
        self, step: str, team: Team, rows: Cursor, context: Context, larger: Larger | None = None
    ) -> None:
        self._step = step
        self._team = team
        self._larger = larger
        self._rows = rows
        self._context = context
        self._alike = Alike(step)
        self._size = 1  # rows of the next task
        self._row_bytes = 0  # of a row and its result
        span = rows.node if isinstance(rows.node, Span) else None
        # The number after the last row, and how many there are in all: after a part of a cache come others.
        self._end = rows.node.cardinality() if span is None else span.end
        self._count = self._end if span is None else span.input.cardinality()
        self._tasks_ahead = _AHEAD
        self._spent = 0.0  # seconds
        self._lately: deque[float] = deque(maxlen=_LATELY)  # seconds for a row, in the last tasks
        self._should_grow = False
        self._tasks: deque[_Task] = deque()  # in the order of their rows
        self._ended = False
        self._failed: _Failed | None = None  # a row, after those that were given
        self._after: State = rows.state()
        self._input_failed: Exception | None = None  # after all that was sent
        self.waited = 0.0
        self.deaths = 0
        self.ahead = 0
        self.account = context.budget.account(step)

    def next(self) -> Done | None:
        """The results of the next rows; None at the end. A row that fails is raised in its place."""
        while self._failed is None:
            self._send_more()
            if not self._tasks:
                self._raise_of_input()
                return None
            task = self._tasks[0]
            assert task.ticket is not None
            began = time.perf_counter()
            try:
                outcome = task.ticket.wait()
            except WorkerDied as died:
                self._do_again(died)
                continue
            finally:
                waited = time.perf_counter() - began
                self.waited += waited
            self._tasks.popleft()
            self._tune(task, task.ticket.seconds, outcome)
            all_over = all(later.ticket and later.ticket.is_over for later in self._tasks)
            if waited > SECONDS and self._tasks and all_over:
                # One that took long has kept all places waiting.
                self._tasks_ahead = min(2 * self._tasks_ahead, _MOST_AHEAD)
            outcome = self._checked(outcome)
            done, rows = outcome.done, task.rows.rows
            if outcome.error is not None:
                self._fail(task, done, outcome.error)
            elif done:
                self._put_first(task, done, rows)
            else:  # they were too many at once
                self._put_first(task, rows // 2, rows)
                self._put_first(task, 0, rows // 2)
            if outcome.block is not None:
                self._after = moved(task.before, done)
                return Done(task.rows.slice(0, done), outcome.block)
        failed, self._failed = self._failed, None
        self._after = failed.after
        raise failed.error

    def _checked(self, outcome: Outcome) -> Outcome:
        """Results of another kind than the first are an error of the first of these rows."""
        try:
            if outcome.block is not None:
                self._alike.check(outcome.block)
        except UsageError as error:
            return Outcome(None, error)
        return outcome

    @property
    def workers(self) -> int:
        """At present."""
        return self._team.size

    @property
    def after(self) -> State:
        """Of the cursor, after what was given or raised last."""
        return self._after

    def _raise_of_input(self) -> None:
        if self._input_failed is not None:
            error, self._input_failed = self._input_failed, None
            self._after = self._rows.state()
            raise error

    def _send_more(self) -> None:
        if self._larger is not None and self._should_grow:
            self._grow(self._larger)
        for at, task in enumerate(self._tasks):
            if task.ticket is None:
                if at and not self._has_room():
                    return
                self._tasks[at] = self._sent(task)
        while self._has_room() and not self._ended and self._input_failed is None:
            before, number = self._rows.state(), self._rows.passed
            try:
                block = self._rows.peek(self._next_size(number))
            except Exception as error:
                self._input_failed = error
                return
            if block is None:
                self._ended = True
                return
            self._tasks.append(self._sent(_Task(block, before, number)))
            self._rows.advance(block.rows)

    def _sent(self, task: _Task) -> _Task:
        return task._replace(ticket=self._team.send(task.rows, task.number))

    def _has_room(self) -> bool:
        sent = [task.rows.rows for task in self._tasks if task.ticket is not None]
        held = sum(sent) * self._row_bytes
        self.ahead = max(self.ahead, held)
        self.account.hold(held)
        if not sent:
            return True
        if self.account.is_limited and not self._lately:
            return False  # how large are they? The first tells
        more = self._size * self._row_bytes
        few = len(sent) < self._tasks_ahead * max(1, self._team.size)
        return few and held + more <= _MOST_BYTES and self.account.may_hold(more)

    def _next_size(self, number: int) -> int:
        """Smaller tasks towards the end, so that all places have work until then."""
        left = self._end - number
        if left <= 0:  # or it is not known
            return self._size
        return max(1, self._size // _SMALLEST, min(self._size, left // (self._team.size + 1)))

    def _do_again(self, died: WorkerDied) -> None:
        """Rows of which a worker died."""
        self.deaths += 1
        task = self._tasks.popleft()
        task, rows = task._replace(deaths=task.deaths + 1), task.rows.rows
        if rows == 1 and task.deaths == _DEATHS:
            return self._fail(task, 0, died)
        size = 1 if rows <= _FEW else isqrt(rows)
        for begin in reversed(range(0, rows, size)):
            self._put_first(task, begin, min(begin + size, rows))

    def _fail(self, task: _Task, row: int, error: Exception) -> None:
        blame(error, self._step, task.number + row)
        self._failed = _Failed(error, moved(task.before, row + 1))
        self._put_first(task._replace(deaths=0), row + 1, task.rows.rows)

    def _put_first(self, task: _Task, begin: int, end: int) -> None:
        """Do these rows of it next."""
        if begin < end:
            rows, before = task.rows.slice(begin, end), moved(task.before, begin)
            self._tasks.appendleft(_Task(rows, before, task.number + begin, deaths=task.deaths))

    def _tune(self, task: _Task, seconds: float, outcome: Outcome) -> None:
        rows = max(1, outcome.done)
        of_row, of_result = task.rows.nbytes // task.rows.rows, 0
        if outcome.block is not None:
            of_result = outcome.block.nbytes // rows
        self._row_bytes, row_bytes = of_row + of_result, max(of_row, of_result)
        self._lately.append(seconds / rows)
        self._spent += seconds
        if self._larger is not None:
            self._should_grow = self._pays(self._larger, task.number + rows, row_bytes)
        wanted = round(SECONDS * rows / max(seconds, 1e-9))
        self._size = max(1, min(wanted, self._size * _GROWTH, self._context.rows_of(row_bytes)))

    def _pays(self, larger: Larger, passed: int, row_bytes: int) -> bool:
        of_row = min(self._lately)
        if self._spent < _TRIAL or of_row < _SENDING + row_bytes * _SENDING_BYTE:
            return False
        if self._count == UNKNOWN:
            left = self._spent  # as much is expected as there was
        else:
            left = inf if self._count == INFINITE else (self._count - passed) * of_row
        return _GAIN * left > larger.seconds

    def _grow(self, larger: Larger) -> None:
        self._larger = None
        try:
            team = larger.make()
        except UsageError as error:  # nobody asked for workers, so that there can be none is no error
            warnings.warn(f"{error}\n  Until then it stays in this process.", RuntimeWarning, stacklevel=2)
            return
        self._team.close()
        self._team = team

    def close(self) -> None:
        self._tasks.clear()
        self._ended = True
        self.account.close()
        self._team.close()

    def __del__(self) -> None:
        # Garbage is collected in any thread and at any moment: in one of the team's, or in one that is just
        # starting and holds the lock that the end of another needs. So nobody may be waited for here.
        if hasattr(self, "_team") and not sys.is_finalizing():
            self._team.close(wait=False)

"""What was measured in the iterations of a dataset: the last one, and all of them together.

An iteration that is over is added to a sum, so a history does not grow with the epochs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from threading import Lock
from typing import Any, NamedTuple
from weakref import ref

from feedline.graph.memory import Budget
from feedline.run.measure import Measure

Measures = Mapping[Any, Measure]


class _Iteration(NamedTuple):
    iterator: ref[Any]
    measures: Measures
    budget: Budget

    @property
    def is_over(self) -> bool:
        return self.iterator() is None


class History:
    def __init__(self) -> None:
        self.iterations = 0
        self._last: _Iteration | None = None
        self.elements: int | None = None  # that the last complete iteration gave
        self._over: Measures = {}
        self._most = 0  # bytes at a time, in those
        self._running: list[_Iteration] = []
        self._lock = Lock()

    def begin(self, iterator: Any, measures: Measures, budget: Budget) -> None:
        """Note an iteration, which is over when its iterator is gone. Its measures are still to come."""
        with self._lock:
            over = [one for one in self._running if one.is_over]
            self._running = [one for one in self._running if not one.is_over]
            self._over = _sum([self._over, *(_released(one.measures) for one in over)])
            self._most = max([self._most, *(one.budget.most for one in over)])
            self._running.append(_Iteration(ref(iterator), measures, budget))
            self._last = self._running[-1]
            self.iterations += 1

    def end(self, elements: int) -> None:
        """Note that an iteration has come to the end of the dataset."""
        self.elements = elements

    @property
    def last(self) -> Measures:
        if self._last is None:
            return {}
        return _released(self._last.measures) if self._last.is_over else self._last.measures

    @property
    def memory(self) -> tuple[int, int]:
        """Bytes that the last iteration holds, and the most that it held."""
        if self._last is None:
            return 0, 0
        budget = self._last.budget
        return 0 if self._last.is_over else budget.in_use, budget.most

    def total(self) -> Measures:
        with self._lock:
            running = [_released(one.measures) if one.is_over else one.measures for one in self._running]
            return _sum([self._over, *running])

    def total_memory(self) -> tuple[int, int]:
        """Bytes that all iterations hold, and the most that one of them held."""
        with self._lock:
            in_use = sum(one.budget.in_use for one in self._running if not one.is_over)
            return in_use, max([self._most, *(one.budget.most for one in self._running)])


def _released(measures: Measures) -> Measures:
    """Of an iteration that is over: whatever it held when its iterator was dropped is free."""
    return {key: replace(measure, held=0) for key, measure in dict(measures).items()}


def _sum(parts: list[Measures]) -> Measures:
    total: dict[Any, Measure] = {}
    for part in parts:
        for key, measure in dict(part).items():  # threads may add to it meanwhile
            total[key] = measure.added_to(total[key]) if key in total else replace(measure)
    return total

"""What was measured in the iterations of a dataset: the last one, and all of them together.

An iteration that is over is added to a sum, so a history does not grow with the epochs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from threading import Lock
from typing import Any
from weakref import ref

from feedline.run.measure import Measure

Measures = Mapping[Any, Measure]


class History:
    def __init__(self) -> None:
        self.iterations = 0
        self.last: Measures = {}
        self.elements: int | None = None  # that the last complete iteration gave
        self._over: Measures = {}
        self._running: list[tuple[ref[Any], Measures]] = []
        self._lock = Lock()

    def begin(self, iterator: Any, measures: Measures) -> None:
        """Note an iteration, which is over when its iterator is gone. Its measures are still to come."""
        with self._lock:
            over = [each for iterator, each in self._running if iterator() is None]
            self._running = [pair for pair in self._running if pair[0]() is not None]
            self._over = _sum([self._over, *over])
            self._running.append((ref(iterator), measures))
            self.last = measures
            self.iterations += 1

    def end(self, elements: int) -> None:
        """Note that an iteration has come to the end of the dataset."""
        self.elements = elements

    def total(self) -> Measures:
        with self._lock:
            return _sum([self._over, *(measures for _, measures in self._running)])


def _sum(parts: list[Measures]) -> Measures:
    total: dict[Any, Measure] = {}
    for part in parts:
        for key, measure in dict(part).items():  # threads may add to it meanwhile
            total[key] = measure.added_to(total[key]) if key in total else replace(measure)
    return total

"""How far training has come through a dataset, which is not how far the dataset was read.

A framework reads ahead of what it trains on. So while a callback follows the training, the state after each
element that is handed out is kept until the callback says that the element was trained on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from itertools import chain, islice
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from feedline.iterator import DatasetIterator

if TYPE_CHECKING:
    from feedline.dataset import Dataset

State = dict[str, Any]


class Progress:
    def __init__(self) -> None:
        self.followed = False  # are the iterations that begin now training, and does a callback follow it?
        self.position: State | None = None  # after the last element that was trained on
        self._ahead: deque[State] = deque()  # of elements that were handed out, but not trained on yet
        self._left: DatasetIterator | None = None  # an iteration to go on with, instead of beginning one
        self._most: int | None = None  # elements that the next iteration may hand out

    def run(self, dataset: Dataset) -> Generator[Any]:
        """The elements of one iteration, or of the rest of one."""
        if not self.followed:
            with iter(dataset) as elements:
                yield from elements
            return
        rest, self._left = self._left, None
        most, self._most = self._most, None
        first = [] if rest is None else list(islice(rest, 1))
        elements = rest if rest is not None and first else iter(dataset)
        try:
            for element in islice(chain(first, elements), most):
                self._ahead.append(elements.state_dict())
                yield element
        except BaseException:
            elements.close()
            raise
        if most is None:
            elements.close()
        else:
            self._left = elements

    def trained(self) -> bool:
        """One more element was trained on. False when none was handed out that it could have been."""
        if not self._ahead:
            return False
        self.position = self._ahead.popleft()
        return True

    def start(self) -> None:
        """Training begins: what was handed out before, to look at its shapes, is forgotten."""
        self._ahead.clear()
        self._left, self._most, self.position = None, None, None
        self.followed = True

    def resume(self, dataset: Dataset, position: State, most: int | None) -> None:
        """Let the next iteration go on from `position`, for `most` elements; the next has the rest."""
        self._left = iter(dataset)
        self._left.load_state_dict(position)
        self._most = most
        self.position = position

    def stop(self) -> None:
        self.followed = False
        self._ahead.clear()
        if self._left is not None:
            self._left.close()
            self._left = None


_known: WeakKeyDictionary[Dataset, Progress] = WeakKeyDictionary()


def progress_of(dataset: Dataset) -> Progress:
    """The same one for the same dataset: so a callback finds what `to_keras()` gave."""
    return _known.setdefault(dataset, Progress())

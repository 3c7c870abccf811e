"""How far training has come through a dataset, which is not how far the dataset was read.

A framework reads ahead of what it trains on. So while a callback follows the training, the states after the
elements that are handed out are kept until the callback says that they were trained on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from feedline.block import Block
from feedline.graph.cursor import moved
from feedline.iterator import DatasetIterator

if TYPE_CHECKING:
    from feedline.dataset import Dataset

State = dict[str, Any]


class Progress:
    def __init__(self) -> None:
        self.followed = False  # are the iterations that begin now training, and does a callback follow it?
        self.position: State | None = None  # after the last element that was trained on
        # Of elements that were handed out, but not trained on yet: the state in front of their block, and how
        # many rows after it.
        self._ahead: deque[tuple[State, int]] = deque()
        self._left: DatasetIterator | None = None  # an iteration to go on with, instead of beginning one
        self._most: int | None = None  # elements that the next iteration may hand out
        self._note_state: Callable[[State], None] = lambda state: None  # of the iteration that runs

    def run(self, dataset: Dataset) -> Generator[Block]:
        """The elements of one iteration, or of the rest of one."""
        if not self.followed:
            with iter(dataset) as elements:
                yield from blocks(elements)
            return
        rest, self._left = self._left, None
        most, self._most = self._most, None
        elements = iter(dataset) if rest is None or rest.is_at_end else rest
        self._note_state = elements.note_state
        before = elements.find_state()
        try:
            for block in blocks(elements, most):
                self._ahead.extend((before, row) for row in range(1, block.rows))
                before = elements.find_state()
                self._ahead.append((before, 0))
                yield block
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
        before, rows = self._ahead.popleft()
        self.position = {**before, "position": moved(before["position"], rows)}
        return True

    def note_saved(self) -> None:
        """The position is about to be saved."""
        if self.position is not None:
            self._note_state(self.position)

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


def blocks(elements: DatasetIterator, most: int | None = None) -> Generator[Block]:
    """The elements that follow, as many at a time as are there; `most` in all."""
    left = most
    while left != 0 and (block := elements.take_block(left)) is not None:
        if left is not None:
            left -= block.rows
        yield block


_known: WeakKeyDictionary[Dataset, Progress] = WeakKeyDictionary()


def progress_of(dataset: Dataset) -> Progress:
    """The same one for the same dataset: so a callback finds what `to_keras()` gave."""
    return _known.setdefault(dataset, Progress())

"""Datasets as elements: of rows that were read, for window and group_by_window, and those that users make."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from feedline.block import Block
from feedline.column import Column, Objects
from feedline.graph import Context, Cursor, Node, Peek, Site, State
from feedline.ops.tensor_slices import TensorSlices, read_only


def are_datasets(column: Column) -> bool:
    """Is each row a dataset, or a batch of them? Such rows can be stacked, as Objects."""
    return isinstance(column, Objects) and all(map(_is_dataset, column.items))


def _is_dataset(value: Any) -> bool:
    return isinstance(value, Objects) or isinstance(getattr(value, "_node", None), Node)


@dataclass(frozen=True, eq=False)
class Rows(TensorSlices):
    """Rows in memory, with the spec of the dataset they come from: it may be wider than what they show."""

    known: Any = field(default=None, compare=False)

    @classmethod
    def of(cls, block: Block, known: Any, site: Site | None) -> Rows:
        """Read-only, as several windows may share them."""
        return cls(read_only(block.structure, block.columns, block.rows), known, site=site)

    def spec(self, peek: Peek | None) -> Any:
        return self.block.spec if self.known is None else self.known


class Numbered(Cursor):
    """A Cursor that counts the elements that failed, too: `number` says for each place which one it is.

    So a step that holds elements back can save the state of the input in front of them and a number, and read
    up to there again.
    """

    def __init__(self, context: Context, node: Node, state: State = None) -> None:
        self._failed: int
        self._failed, inner = state or (0, None)
        super().__init__(context, node, inner)

    @property
    def number(self) -> int:
        """Of the next element, counted from 0."""
        return self.passed + self._failed

    def peek(self, limit: int) -> Block | None:
        try:
            return super().peek(limit)
        except Exception:
            self._failed += 1
            raise

    def state(self) -> State:
        return [self._failed, super().state()]

"""sample_from_datasets: the next element of one dataset or another, drawn by weight.

It is choose_from_datasets by choices that are drawn here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from feedline.block import Block
from feedline.errors import UsageError
from feedline.graph import INFINITE, Context, Cursor, Node, Peek, State, Stream
from feedline.ops.choose_from_datasets import ChooseFromDatasets
from feedline.ops.random import Bits, Numbers
from feedline.ops.take import Take
from feedline.spec import ArraySpec
from feedline.structure import flatten

_STRUCTURE = flatten(0)[1]

Weights: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]


def sampled(
    parts: tuple[Node, ...],
    weights: Sequence[float] | Node | None,
    seed: int | None,
    stop_on_empty_dataset: bool,
    rerandomize_each_iteration: bool,
    **site: Any,
) -> Node:
    if not parts:
        raise UsageError("sample_from_datasets: give one dataset at least.")
    if isinstance(weights, Node):
        choices = Draw(rerandomize_each_iteration, weights, len(parts), seed=seed, **site)
    else:
        weights = [1.0] * len(parts) if weights is None else weights
        given = _checked(weights, len(parts), "sample_from_datasets")
        # As in tf.data: what has no weight is not even looked at to see whether it has ended.
        kept = np.flatnonzero(given).tolist()
        if not kept:
            return Take(parts[0], 0, **site)
        if len(kept) == 1:
            return parts[kept[0]]
        parts = tuple(parts[number] for number in kept)
        chosen = tuple(given[kept].tolist())
        choices = Draw(rerandomize_each_iteration, chosen, len(parts), seed=seed, **site)
    return ChooseFromDatasets(parts, choices, stop_on_empty_dataset, **site)


def _checked(weights: Any, count: int, where: str) -> Weights:
    try:
        given = np.asarray(weights)
    except ValueError:
        given = np.empty(0, object)
    if given.dtype.kind not in "iuf":
        raise UsageError(f"{where}: weights must be real numbers, not {weights!r}.")
    given = given.astype(np.float64)
    if given.shape != (count,):
        raise UsageError(f"{where}: {count} datasets need {count} weights, not {given.shape} of them.")
    if not _are_sound(given):
        raise UsageError(f"{where}: weights must be 0 or more and finite, not {given.tolist()}.")
    return given


def _are_sound(weights: Weights) -> Any:
    return (np.isfinite(weights) & (weights >= 0)).all(axis=-1)


@dataclass(frozen=True, eq=False)
class Draw(Numbers):
    """Numbers from 0 to `count` - 1, each as likely as its weight is large."""

    weights: tuple[float, ...] | Node  # the node gives other weights for each draw
    count: int

    def cardinality(self) -> int:
        return self.weights.cardinality() if isinstance(self.weights, Node) else INFINITE

    def spec(self, peek: Peek | None) -> Any:
        return ArraySpec((), np.dtype(np.int64))

    def open(self, context: Context, state: State) -> Stream:
        if isinstance(self.weights, Node):
            return _WeighedStream(self, self.weights, context, state)
        return _DrawStream(self, self.weights, context, state)

    def numbers(self, bits: np.ndarray[Any, np.dtype[np.uint64]], weights: Weights) -> Block:
        """One number for each 64 bits; `weights` are those of all, or a row for each."""
        ends = np.cumsum(weights, axis=-1)
        # 53 bits are what a float64 holds: a number from 0 up to, and without, 1.
        at = (bits >> np.uint64(11)) * 2.0**-53 * ends[..., -1]
        if ends.ndim == 1:
            numbers = np.searchsorted(ends, at, side="right")
        else:
            numbers = (at[:, None] >= ends).sum(axis=1)
        # Rounding may bring it to the very end.
        last = self.count - 1 - np.argmax(np.flip(weights, axis=-1) > 0, axis=-1)
        return Block._trusted(_STRUCTURE, [np.minimum(numbers, last).astype(np.int64)], len(bits))


class _DrawStream(Stream):
    def __init__(self, node: Draw, weights: tuple[float, ...], context: Context, state: State) -> None:
        self._node = node
        self._weights = np.array(weights)
        self._rows = context.block_rows
        self._bits = Bits(node, context, state)

    def next(self, limit: int) -> Block | None:
        return self._node.numbers(self._bits.next(min(limit, self._rows)), self._weights)

    def state(self) -> State:
        return self._bits.state()


class _WeighedStream(Stream):
    def __init__(self, node: Draw, weights: Node, context: Context, state: State) -> None:
        self._node = node
        bits, rows = state or (None, None)
        self._bits = Bits(node, context, bits)
        self._rows = Cursor(context, weights, rows)

    def next(self, limit: int) -> Block | None:
        block = self._rows.peek(limit)
        if block is None:
            return None
        weights = self._sound(block)
        rows = max(1, len(weights))
        bits = self._bits.next(rows)
        self._rows.advance(rows)
        if len(weights) == 0:
            self._refuse(block.row(0))
        return self._node.numbers(bits, weights)

    def _sound(self, block: Block) -> Weights:
        """The weights in front of the first that cannot be drawn by."""
        count = self._node.count
        given = block.columns[0] if len(block.columns) == 1 else None
        if not isinstance(given, np.ndarray) or given.shape[1:] != (count,) or given.dtype.kind not in "fiub":
            # Not all have one shape: one by one.
            row = np.asarray(block.row(0)) if block.structure == _STRUCTURE else np.empty(0)
            given = row[None] if row.shape == (count,) and row.dtype.kind in "fiub" else np.empty((0, count))
        weights = given.astype(np.float64)
        wrong = np.flatnonzero(~(_are_sound(weights) & weights.any(axis=1)))
        return weights[: wrong[0]] if len(wrong) else weights

    def _refuse(self, weights: Any) -> None:
        _checked(weights, self._node.count, str(self._node))
        raise UsageError(f"{self._node}: of the weights of a draw, one at least must be more than 0.")

    def state(self) -> State:
        return [self._bits.state(), self._rows.state()]

    def close(self) -> None:
        self._rows.close()

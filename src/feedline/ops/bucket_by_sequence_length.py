"""bucket_by_sequence_length: elements of like length are gathered in buckets; a full bucket is a batch.

The state is small: for each bucket, the numbers of the rows in it, and the state of the input at the oldest
of them. A restored stream reads from there again, and keeps those rows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from operator import index
from typing import Any, NamedTuple

import numpy as np

from feedline.block import Block
from feedline.column import Column, Ragged, row_spec
from feedline.errors import UsageError, WrongKind
from feedline.graph import INFINITE, UNKNOWN, Context, Indices, Node, Peek, State, Stream
from feedline.graph.arguments import check_bool, check_function
from feedline.graph.calls import blame, caller
from feedline.graph.memory import Account
from feedline.ops.batch import Batch, BatchMaker
from feedline.ops.nested import Numbered
from feedline.ops.padding import Padder, Padding, check_padding
from feedline.spec import ArraySpec, ObjectSpec, Spec, merge_specs
from feedline.structure import flatten


@dataclass(frozen=True, eq=False)
class BucketBySequenceLength(Node):
    """Bucket i holds the elements whose length is below boundary i, and not below the one before it."""

    input: Node
    element_length_func: Callable[..., Any]
    bucket_boundaries: Any
    bucket_batch_sizes: Any
    padded_shapes: Any
    padding_values: Any
    pad_to_bucket_boundary: bool
    no_padding: bool
    drop_remainder: bool

    runs_python = True

    def __post_init__(self) -> None:
        check_function(self, "element_length_func")
        boundaries, sizes = self._integers("bucket_boundaries"), self._integers("bucket_batch_sizes")
        if len(sizes) != len(boundaries) + 1:
            raise UsageError(
                f"{self.name}: {len(boundaries)} bucket_boundaries make {len(boundaries) + 1} buckets, and "
                f"there are {len(sizes)} bucket_batch_sizes.\n"
                "  The last bucket is for what is as long as the last boundary, or longer."
            )
        if not 1 <= min(sizes) <= max(sizes) < 2**63:
            raise UsageError(f"{self.name}(bucket_batch_sizes={sizes}): a batch has 1 to 2**63 - 1 elements.")
        for name in ("pad_to_bucket_boundary", "no_padding", "drop_remainder"):
            check_bool(self, name)
        if isinstance(self.padded_shapes, list | tuple | dict) and not self.padded_shapes:
            object.__setattr__(self, "padded_shapes", None)  # as tf.data takes it
        if not self.no_padding:
            check_padding(self)

    def _integers(self, name: str) -> tuple[int, ...]:
        given = getattr(self, name)
        try:
            integers = tuple(map(index, given))
        except TypeError:
            raise UsageError(f"{self.name}({name}={given!r}): give a list of integers.") from None
        object.__setattr__(self, name, integers)
        return integers

    def cardinality(self) -> int:
        return INFINITE if self.input.cardinality() == INFINITE else UNKNOWN

    def spec(self, peek: Peek | None) -> Any:
        if self.no_padding:
            return Batch(self.input, 1, False).spec(peek)
        return Padding.of(self).spec(self.input.spec(peek), None)

    def open(self, context: Context, state: State) -> Stream:
        return _BucketStream(self, context, state)


class _BucketStream(Stream):
    def __init__(self, node: BucketBySequenceLength, context: Context, state: State) -> None:
        self._node = node
        self._context = context
        self._call = caller(node.element_length_func)
        self._boundaries = np.array(node.bucket_boundaries, np.int64)
        self._maker = _BatchMaker(node, context)
        self._buckets = [_Bucket() for _ in node.bucket_batch_sizes]
        self._plan: list[tuple[int, int]] = []  # full batches: the element after each, and the bucket
        self._error: Exception | None = None  # of the element after all that are planned
        at_input, behind, held = state or (None, 0, [])
        self._rows = Numbered(context, node.input, at_input)
        remedy = "Use fewer buckets or smaller batches, or raise the limit."
        self.account: Account = context.budget.account(node, "what its buckets hold", remedy)
        self._restore(self._rows.number + behind, held)
        self._mark = self._here()
        self._next = 0  # element; only while batches are planned or an error is: then the cursor is ahead

    def next(self, limit: int) -> Block | None:
        sizes = self._node.bucket_batch_sizes
        while not self._plan:
            if self._error is not None:
                error, self._error = self._error, None
                raise error
            if not self._read(min(limit * max(sizes), self._context.block_rows)):
                return self._last()
            held = sum(bucket.bytes for bucket in self._buckets)
            self.account.hold(held, held)
        self._next, number = self._plan.pop()
        return self._maker.batch(number, *self._buckets[number].remove(sizes[number]))

    def _last(self) -> Block | None:
        """What is left in the first bucket that is not empty."""
        for number, bucket in enumerate(self._buckets):
            if bucket.count:
                block, numbers = bucket.remove(bucket.count)
                if not self._node.drop_remainder:
                    return self._maker.batch(number, block, numbers)
                self._maker.check(number, numbers)
        return None

    def _read(self, rows: int) -> bool:
        """Put rows into their buckets, and plan which batches that makes; False at the end."""
        mark, sizes = self._here(), self._node.bucket_batch_sizes
        block = self._rows.peek(rows)
        if block is None:
            return False
        self._mark = mark
        found = self._numbers(block)
        self._rows.advance(len(found) + (self._error is not None))
        for number in np.unique(found).tolist():
            chosen = np.flatnonzero(found == number)
            bucket, size = self._buckets[number], sizes[number]
            ends = mark.number + 1 + chosen[size - bucket.count - 1 :: size]
            self._plan += [(end, number) for end in ends.tolist()]
            bucket.add(mark, chosen, block)
        self._plan.sort(reverse=True)
        return True

    def _numbers(self, block: Block) -> Indices:
        """The buckets of the first rows: of all, unless the function fails or takes too long."""
        late = self._context.services.deadline()
        lengths: list[int] = []
        try:
            for element in block:
                lengths.append(self._length(self._call(element)))
                if late():
                    break
        except Exception as error:
            blame(error, self._node, self._rows.passed + len(lengths))
            self._error = error
        given, boundaries = np.array(lengths, np.int64)[:, None], self._boundaries
        always = np.ones((len(lengths), 1), np.bool_)
        above = np.concatenate([always, boundaries <= given], axis=1)
        below = np.concatenate([given < boundaries, always], axis=1)
        # Boundaries need not rise: then the first bucket that fits is meant, as in tf.data.
        numbers: Indices = np.argmax(above & below, axis=1)
        return numbers

    def _length(self, answer: Any) -> int:
        try:
            return index(answer)
        except TypeError:
            raise WrongKind(
                f"{self._node.name}: element_length_func must return an integer, not {answer!r}.\n"
                "  Of an array, len(x) is one."
            ) from None

    def _here(self) -> _Mark:
        return _Mark(self._rows.number, self._rows.state())

    def state(self) -> State:
        mark, held = self._mark, []
        end = self._next if self._plan or self._error is not None else self._rows.number
        for number, bucket in enumerate(self._buckets):
            numbers, oldest = bucket.before(end)
            if oldest is not None:
                held.append((number, numbers))
                mark = min(mark, oldest, key=lambda one: one.number)
        numbered = [[number, (numbers - mark.number).tolist()] for number, numbers in held]
        return [mark.state, end - mark.number, numbered]

    def _restore(self, end: int, held: list[Any]) -> None:
        """Read up to the element of that number, and put those that were held into their buckets."""
        first = self._rows.number
        numbers_of = {number: np.array(numbers, np.int64) + first for number, numbers in held}
        while self._rows.number < end:
            mark = self._here()
            try:
                block = self._rows.peek(min(end - mark.number, self._context.block_rows))
            except Exception:
                continue  # it was raised before
            if block is None:
                raise UsageError(f"{self._node}: the input has fewer elements than when the state was taken.")
            for number, numbers in numbers_of.items():
                begin, end_ = np.searchsorted(numbers, (mark.number, mark.number + block.rows))
                if begin < end_:
                    self._buckets[number].add(mark, numbers[begin:end_] - mark.number, block)
            self._rows.advance(block.rows)

    def close(self) -> None:
        self._rows.close()
        self._buckets, self._plan = [], []


class _Mark(NamedTuple):
    """A place in the input: the number of the element there, and how to come there again."""

    number: int
    state: State


class _Bucket:
    """Rows, first in first out, each with its number in the input."""

    def __init__(self) -> None:
        self.count = 0
        self.bytes = 0
        self._parts: deque[tuple[_Mark, Indices, Block]] = deque()

    def add(self, mark: _Mark, rows: Indices, block: Block) -> None:
        """Some rows of a block that begins at the mark."""
        chosen = block if len(rows) == block.rows else block.take(rows)
        # With columns of their own: rows that were only picked would hold on to the blocks they come from.
        own = chosen.copied()
        self._parts.append((mark, rows + mark.number, own))
        self.count += len(rows)
        self.bytes += own.nbytes

    def remove(self, count: int) -> tuple[Block, Indices]:
        """The first rows, and their numbers."""
        self.bytes -= self.bytes * count // self.count
        self.count -= count
        blocks: list[Block] = []
        numbers: list[Indices] = []
        while count:
            mark, own, block = self._parts.popleft()
            if len(own) > count:
                self._parts.appendleft((mark, own[count:], block.slice(count, block.rows)))
                own, block = own[:count], block.slice(0, count)
            count -= len(own)
            blocks.append(block)
            numbers.append(own)
        return Block.concat(blocks), np.concatenate(numbers)

    def before(self, end: int) -> tuple[Indices, _Mark | None]:
        """The numbers below `end`, and a mark in front of them, if there are any."""
        numbers = np.concatenate([_NONE, *(own for _, own, _ in self._parts)])
        numbers = numbers[: int(np.searchsorted(numbers, end))]
        return numbers, self._parts[0][0] if len(numbers) else None


_NONE = np.empty(0, np.int64)


class _BatchMaker:
    """Makes a bucket's rows a batch: as they are, or filled up to the longest or to the bucket's boundary."""

    def __init__(self, node: BucketBySequenceLength, context: Context) -> None:
        self._node = node
        self._context = context
        self._padders: dict[int, Padder] = {}
        self._stacker = BatchMaker(Batch(node.input, 1, False, site=node.site), context)
        self._guess: Any = None  # the spec of the elements, where only the first of them tell it

    def check(self, number: int, numbers: Indices) -> None:
        """Refuse what does not fit under the last boundary; also where it would be dropped, as tf.data."""
        node = self._node
        if node.pad_to_bucket_boundary and not node.no_padding and number == len(node.bucket_boundaries):
            raise UsageError(
                f"{node}: element {numbers[0]:,} is as long as the last boundary, or longer: with "
                "pad_to_bucket_boundary all must be shorter.\n"
                "  Drop longer ones with filter(...), or add a boundary."
            )

    def batch(self, number: int, block: Block, numbers: Indices) -> Block:
        self.check(number, numbers)
        if self._node.no_padding:
            try:
                return self._stacker.one(block, 0)
            except UsageError as error:
                error.add_note(
                    f"  counted within the batch, whose first is element {numbers[0]:,} of the input"
                )
                raise
        padder = self._padders.get(number)
        if padder is None:
            padder = self._padders[number] = self._padder(number)
        if self._guess is not None:
            self._check(block)
        return padder.one(block, numbers)

    def _padder(self, number: int) -> Padder:
        node, padding = self._node, Padding.of(self._node)
        if not node.pad_to_bucket_boundary:
            return Padder(node, padding)
        if padding.shapes is None:
            padding = padding._replace(shapes=self._shapes())
        return Padder(node, padding, node.bucket_boundaries[number] - 1)

    def _shapes(self) -> Any:
        """The shapes of the elements: a dimension that is known to be always the same is not filled up."""
        spec = self._node.input.spec(None)
        if spec is None:
            spec = self._guess = self._node.input.spec(self._context.peek)
        leaves, structure = flatten(spec)
        for leaf, path in zip(leaves, structure.paths(), strict=True):
            if isinstance(leaf, ObjectSpec) or leaf.shape is None:
                raise UsageError(f"{self._node}: {path} has {leaf}.{_GIVE_SHAPES}")
        return structure.unflatten([list(leaf.shape) for leaf in leaves])

    def _check(self, block: Block) -> None:
        guesses, structure = flatten(self._guess)
        for column, guess, path in zip(block.columns, guesses, structure.paths(), strict=True):
            own = _spec_of(column)
            if merge_specs(own, guess) != guess:
                raise UsageError(
                    f"{self._node}: {path} has {own} here, and {guess} was told by the first elements."
                    f"{_GIVE_SHAPES}"
                )


def _spec_of(column: Column) -> Spec:
    """As narrow as the rows allow: those of a Ragged may happen to be of one length."""
    spec = row_spec(column)
    if isinstance(column, Ragged) and isinstance(spec, ArraySpec) and spec.shape is not None:
        lengths = column.lengths
        if lengths.min() == lengths.max():
            return ArraySpec((int(lengths[0]), *spec.shape[1:]), spec.dtype)
    return spec


_GIVE_SHAPES = (
    "\n  Say with padded_shapes what is filled up to the bucket's boundary: None for each such dimension."
)

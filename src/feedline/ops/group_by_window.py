"""group_by_window: elements gathered by a key, and each full group made a dataset that a function reduces.

The rows of a block that share a key are copied together, so a rare key does not hold on to whole blocks.

The state has no rows: it says how many elements each group holds, and where the input stood at the oldest of
them. From there it is read again, and each key keeps its last ones.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from feedline.block import Block
from feedline.errors import UsageError, WrongKind
from feedline.graph import INFINITE, UNKNOWN, Context, Cursor, DrawingNode, Node, Peek, State, Stream
from feedline.graph.alike import Alike, known_spec
from feedline.graph.arguments import check_function, check_int
from feedline.graph.calls import blame, caller
from feedline.graph.chance import for_made
from feedline.graph.memory import Account
from feedline.ops.nested import Numbered, Rows
from feedline.spec import RaggedSpec, Spec, dtype_name, merge_specs
from feedline.structure import flatten

_TOO_SMALL = "a window has 1 element at least."


@dataclass(frozen=True, eq=False)
class GroupByWindow(DrawingNode):
    input: Node
    key_func: Callable[..., Any]  # of an element
    reduce_func: Callable[..., Any]  # of a key and a dataset, gives a dataset
    window_size: int | None
    window_size_func: Callable[..., Any] | None  # of a key
    wrap: Callable[[Node], Any] = field(compare=False)  # makes a Dataset of a node

    runs_python = True
    makes_datasets = True

    def __post_init__(self) -> None:
        if (self.window_size is None) == (self.window_size_func is None):
            raise UsageError("group_by_window: give either window_size or window_size_func.")
        check_function(self, "key_func")
        check_function(self, "reduce_func")
        if self.window_size_func is not None:
            check_function(self, "window_size_func")
        else:
            check_int(self, "window_size", 1, _TOO_SMALL)

    def cardinality(self) -> int:
        return INFINITE if self.input.cardinality() == INFINITE else UNKNOWN

    def spec(self, peek: Peek | None) -> Any:
        found = peek(self) if peek else None
        inner = _specs.get(self)
        if found is None or inner is None:
            return inner if found is None else found
        # Of a batch, the elements show only how long the first ones are.
        (leaves, structure), (of_inner, _) = flatten(found), flatten(inner)
        return structure.unflatten([_wider(*pair) for pair in zip(leaves, of_inner, strict=True)])

    def open(self, context: Context, state: State) -> Stream:
        return _GroupStream(self, context, state)

    @property
    def has_made(self) -> bool:
        return self in _specs

    def size_of(self, key: int) -> int:
        """How many elements make a full group."""
        if self.window_size_func is None:
            assert self.window_size is not None
            return self.window_size
        size = _integer(self.window_size_func(np.int64(key)), "window_size_func")
        if size < 1:
            raise UsageError(f"group_by_window: window_size_func({key}) is {size}: {_TOO_SMALL}")
        return size

    def reduced(self, key: int, rows: Block, known: Any) -> Node:
        """The node of the dataset that the function makes of a group. `known` is the spec of its elements."""
        group = self.wrap(Rows.of(rows, known, self.site))
        made = self.reduce_func(np.int64(key), group)
        node = getattr(made, "_node", None)
        if not isinstance(node, Node):
            raise WrongKind(
                f"group_by_window: reduce_func must return a feedline Dataset, not {type(made).__name__}."
            )
        if self not in _specs:
            _specs[self] = node.spec(None)
        return node


# What is known of the elements once the first group was reduced.
_specs: WeakKeyDictionary[GroupByWindow, Any] = WeakKeyDictionary()


def _wider(found: Spec, inner: Spec) -> Spec:
    return inner if isinstance(inner, RaggedSpec) else merge_specs(found, inner)


def _integer(value: Any, function: str) -> int:
    """An integer of 64 bits, as a function returned it."""
    kind = value.dtype.kind if isinstance(value, np.ndarray | np.generic) else type(value).__name__
    if kind in ("int", "i", "u") and np.shape(value) == () and -(2**63) <= value < 2**63:
        return int(value)
    raise WrongKind(
        f"group_by_window: {function} must return an integer, not {value!r}.\n"
        "  It is called with one element (with a tuple's parts as arguments), and its numbers are NumPy's."
    )


def _key(value: Any) -> int:
    """What key_func returned: as in tf.data, an int64 or a plain int."""
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "iu" and value.dtype != np.int64:
        raise WrongKind(
            f"group_by_window: key_func must return an int64, not {dtype_name(value.dtype)}.\n"
            "  Convert the key: np.int64(key)."
        )
    return _integer(value, "key_func")


class _Group:
    """Elements with one key."""

    def __init__(self) -> None:
        self.count = 0
        self.bytes = 0  # about
        # Rows, with a number and a state of the input from which on they can be read again.
        self._parts: list[tuple[int, State, Block]] = []

    def add(self, number: int, before: State, rows: Block) -> None:
        self._parts.append((number, before, rows))
        self.count += rows.rows
        self.bytes += rows.nbytes

    def keep_last(self, count: int) -> None:
        while self.count > count:
            number, before, rows = self._parts.pop(0)
            drop = min(rows.rows, self.count - count)
            self.bytes -= self.bytes * drop // self.count
            self.count -= drop
            if drop < rows.rows:
                self._parts.insert(0, (number, before, rows.slice(drop, rows.rows)))

    def rows(self) -> Block:
        whole = Block.concat([rows for _, _, rows in self._parts])
        self._parts = [(*self.begin, whole)]
        return whole

    @property
    def begin(self) -> tuple[int, State]:
        number, before, _ = self._parts[0]
        return number, before


class _GroupStream(Stream):
    def __init__(self, node: GroupByWindow, context: Context, state: State) -> None:
        self._node = node
        self._context = context
        self._known: Any = None  # the spec of the elements, if it is
        self._call = caller(node.key_func)
        self._sizes: dict[int, int] = {}
        self._groups: dict[int, _Group] = {}
        self._key: int | None = None  # of the group that is being given,
        self._given: Cursor | None = None  # and what it was reduced to
        self._is_new = False  # not yet compared with those before
        self._alike = Alike(node)
        self._dropped: int  # groups that were given, or failed
        before, number, counts, key, given, self._dropped = state or (None, 0, [], None, None, 0)
        self._rows = Numbered(context, node.input, before)
        remedy = "Use smaller windows or fewer keys, or raise the limit."
        self.account: Account = context.budget.account(node, "what its windows hold", remedy)
        self._read_again(number, dict(counts))
        if key is not None:
            self._give(key, given)

    def next(self, limit: int) -> Block | None:
        while True:
            if self._given is not None:
                block = self._given.peek(limit)
                if block is not None:
                    self._compare(block)
                    self._given.advance(block.rows)
                    return block
                self._drop()
            key = self._read()
            if key is None:
                return None
            try:
                self._give(key, None)
            except Exception as error:
                self._forget(key)  # it has had its turn: kept, it would fail again at the end, for ever
                blame(error, self._node, self._rows.passed - 1)
                raise

    def _give(self, key: int, state: State) -> None:
        rows = self._groups[key].rows()
        if self._known is None:
            self._known = known_spec(self._node.input, rows, self._context)
        node = self._node.reduced(key, rows, self._known)
        context = for_made(self._context, node, self._node.seed_in(self._context), self._dropped)
        self._key, self._given, self._is_new = key, Cursor(context, node, state), True

    def _compare(self, block: Block) -> None:
        """Refuse a group whose elements are of another kind than those of the groups before."""
        if self._is_new:
            self._is_new = False
            try:
                self._alike.check(block)
            except UsageError:
                self._drop()
                raise

    def _drop(self) -> None:
        """Be done with the group that is being given."""
        assert self._given is not None
        assert self._key is not None
        self._given.close()
        self._forget(self._key)
        self._key = self._given = None

    def _forget(self, key: int) -> None:
        del self._groups[key]
        self._dropped += 1

    def _read(self) -> int | None:
        """Read until a group is full; its key. At the end, the smallest of those that are left, or None."""
        while True:
            number, before = self._rows.number, self._rows.state()
            block = self._rows.peek(self._context.block_rows)
            if block is None:
                return min(self._groups, default=None)
            rows: dict[int, list[int]] = {}
            full: int | None = None
            failed: Exception | None = None
            row = -1
            for row, element in enumerate(block):
                try:
                    key, size = self._key_and_size(element)
                except Exception as error:
                    blame(error, self._node, self._rows.passed + row)
                    failed = error
                    break
                rows.setdefault(key, []).append(row)
                held = self._groups.get(key)
                if len(rows[key]) + (held.count if held else 0) == size:
                    full = key
                    break
            self._hold(number, before, block, rows)
            self._rows.advance(row + 1)
            if failed is not None:
                raise failed
            if full is not None:
                return full

    def _key_and_size(self, element: Any) -> tuple[int, int]:
        key = _key(self._call(element))
        size = self._sizes.get(key)
        if size is None:
            size = self._sizes[key] = self._node.size_of(key)
        return key, size

    def _hold(self, number: int, before: State, block: Block, rows: dict[int, list[int]]) -> None:
        for key, numbers in rows.items():
            self._groups.setdefault(key, _Group()).add(number, before, block.take(numbers))
        held = sum(group.bytes for group in self._groups.values())
        self.account.hold(held, held)

    def _read_again(self, number: int, counts: dict[int, int]) -> None:
        """Read up to the element of that number, and hold as many of each key as were held then: its last."""
        while self._rows.number < number:
            first, before = self._rows.number, self._rows.state()
            try:
                block = self._rows.peek(min(number - first, self._context.block_rows))
            except Exception:
                continue  # it was raised before
            if block is None:
                raise UsageError(f"{self._node}: the input has fewer elements than when the state was taken.")
            rows: dict[int, list[int]] = {}
            for row, element in enumerate(block):
                with suppress(Exception):  # those that failed are in no group
                    key = _key(self._call(element))
                    if key in counts:
                        rows.setdefault(key, []).append(row)
            self._hold(first, before, block, rows)
            self._rows.advance(block.rows)
            for key in rows:
                self._groups[key].keep_last(counts[key])

    def state(self) -> State:
        if self._groups:
            _, before = min((group.begin for group in self._groups.values()), key=lambda begin: begin[0])
        else:
            before = self._rows.state()
        counts = [[key, group.count] for key, group in self._groups.items()]
        given = None if self._given is None else self._given.state()
        return [before, self._rows.number, counts, self._key, given, self._dropped]

    def close(self) -> None:
        self._rows.close()
        if self._given is not None:
            self._given.close()
        self._groups = {}

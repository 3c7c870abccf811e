"""DatasetIterator: goes through a dataset once, and knows where it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from feedline.block import Block
from feedline.errors import UsageError
from feedline.graph import Context, Cursor, Node, State, drawing_nodes, position_key, seeded, tree
from feedline.graph.alike import Alike
from feedline.ops.shard import by_elements
from feedline.tracebacks import hide_frames, is_ours, short_tracebacks

_VERSION = 2


@short_tracebacks
class DatasetIterator(Iterator[Any]):
    """What `iter(dataset)` gives. Of one thread at a time: a lock for each element would cost more than most.

    >>> from feedline import Dataset
    >>> rows = iter(Dataset.range(5))
    >>> next(rows), next(rows)
    (np.int64(0), np.int64(1))
    >>> state = rows.state_dict()
    >>> later = iter(Dataset.range(5))
    >>> later.load_state_dict(state)
    >>> list(later)
    [np.int64(2), np.int64(3), np.int64(4)]
    """

    def __init__(
        self,
        node: Node,
        context: Context,
        resumed: Callable[[int], None],
        ended: Callable[[int], None] = lambda elements: None,
    ) -> None:
        self._own_node = self._node = node
        self._context = context
        self._resumed = resumed  # told the epoch of a state that was loaded
        self._ended = ended  # told the number of elements, at the end
        self._cursor: Cursor | None = None
        self._elements: Iterator[Any] = iter(())
        self._given = 0  # elements of the current block, since the cursor was advanced
        # Steps see to it that what they give is of one kind, but do not know what came before a state.
        self._alike = Alike(str(node))
        self._is_alike = False
        self._closed = False
        self._is_reading = False

    def __next__(self) -> Any:
        try:
            for element in self._elements:
                self._given += 1
                return element
            return self._next_block()
        except hide_frames():
            raise

    def _next_block(self) -> Any:
        self._check_open()
        block = self._peek(self._context.block_rows)
        if block is None:
            self._elements = iter(())
            raise StopIteration
        self._elements = iter(block)
        return next(self)

    def _peek(self, limit: int) -> Block | None:
        if self._is_reading:  # no call from here to the next line, so no other thread either
            raise UsageError(
                "this iterator is asked for an element while it reads one, by another thread or by a "
                "function of its own steps. Elements would be lost or repeated.\n"
                "  Give each thread an iterator of its own, or have them take turns by a threading.Lock."
            )
        self._is_reading = True
        try:
            cursor = self._open()
            if cursor.held:
                cursor = self._go_to(cursor.state())
            cursor.advance(self._given)
            self._given = 0
            block = cursor.peek(limit)
            if block is None:
                self._ended(cursor.passed)
                if (consumption := self._context.services.consumption) is not None:
                    consumption.note_end()
            elif not self._is_alike:
                self._alike.check(block)
                self._is_alike = True
            return block
        except Exception as error:
            steps = len(tree(self._node)) if isinstance(error, RecursionError) else 0
            if steps > 100:
                error.add_note(
                    f"  this pipeline has {steps:,} steps, and each takes some of Python's stack.\n"
                    "  If there are that many on purpose:  sys.setrecursionlimit(100_000)"
                )
            _clear_frames(error)
            raise
        finally:
            self._is_reading = False

    def take_block(self, most: int | None = None) -> Block | None:
        """The elements that follow, as many as come at once, but no more than `most`; None at the end."""
        self._check_open()
        block = self._peek(self._context.block_rows if most is None else min(most, self._context.block_rows))
        self._elements = iter(())
        self._given = 0 if block is None else block.rows
        return block

    @property
    def is_at_end(self) -> bool:
        """Is there no element any more? One is read to find out."""
        return self._peek(1) is None

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError("this iterator is closed; iter(dataset) gives a new one.")

    def _open(self) -> Cursor:
        self._check_open()
        if self._cursor is None:
            self._cursor = Cursor(self._context, self._node)
        return self._cursor

    def state_dict(self) -> dict[str, Any]:
        """Where the iterator is, as JSON can hold it: an iterator of the same pipeline goes on from there."""
        state = self.find_state()
        self.note_state(state)
        return state

    def find_state(self) -> dict[str, Any]:
        """The same, for one who may not use it. Before it is saved, `note_state` must be called with it."""
        cursor = self._open()
        cursor.advance(self._given)
        self._given = 0
        return {
            "feedline": _VERSION,
            "pipeline": position_key(self._node),
            "epoch": list(self._context.epoch),
            "seeds": [node.seed_in(self._context) for node in drawing_nodes(self._node)],
            "kind": self._alike.state(),
            "position": cursor.state(),
        }

    @property
    def note_state(self) -> Callable[[dict[str, Any]], None]:
        """Tells sources that what is before a state was consumed, also after the end of the iterator."""
        consumption = self._context.services.consumption

        def note(state: dict[str, Any]) -> None:
            if consumption is not None:
                consumption.note_state(state["position"])

        return note

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from where `state` was taken, by an iterator of the same pipeline in any process."""
        self._check_open()
        keys = {"feedline", "pipeline", "epoch", "seeds", "kind", "position"}
        if not isinstance(state, dict) or set(state) != keys or state["feedline"] != _VERSION:
            raise UsageError("load_state_dict: this is not what state_dict() of a feedline iterator gave.")
        self._node = self._node_of(state["pipeline"])
        epoch = tuple(state["epoch"])
        self._context = seeded(self._context.at_epoch(epoch), self._node, state["seeds"])
        self._resumed(epoch[0])
        self._elements, self._given = iter(()), 0
        self._alike = Alike(str(self._node), state["kind"])
        self._go_to(state["position"], is_restored=True)

    def _node_of(self, key: str) -> Node:
        if key == position_key(self._own_node):
            return self._own_node
        earlier = by_elements(self._own_node)  # a state of version 0.1 goes on as it began
        if key == position_key(earlier):
            return earlier
        raise UsageError(
            "load_state_dict: this state was taken from another pipeline.\n"
            "  Its steps, their arguments and their functions must be the same as then."
        )

    def _go_to(self, position: State, *, is_restored: bool = False) -> Cursor:
        if self._cursor is not None:
            self._cursor.close()
        if (consumption := self._context.services.consumption) is not None:
            consumption.begin_at(position, is_restored=is_restored)
        self._cursor = Cursor(self._context, self._node, position)
        self._is_alike = False
        return self._cursor

    get_state = state_dict
    set_state = load_state_dict

    def close(self) -> None:
        """Stop, and give back what is held: threads, files, memory. It happens by itself when dropped."""
        self._closed = True
        self._elements = iter(())
        if self._cursor is not None:
            self._cursor.close()
            self._cursor = None
        context = self.__dict__.get("_context")
        if context is not None and context.services.consumption is not None:
            context.services.consumption.close()
        # A step may hold something for as long as someone knows it.
        for name in ("_node", "_own_node", "_context", "_resumed", "_ended"):
            self.__dict__.pop(name, None)

    def __enter__(self) -> DatasetIterator:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _clear_frames(error: BaseException | None) -> None:
    """A frame of ours that knows the error it raised would keep streams and workers until a collection."""
    while error is not None:
        trace = error.__traceback__
        while trace is not None:
            if is_ours(trace.tb_frame):
                with suppress(RuntimeError):  # it is still running
                    trace.tb_frame.clear()
            trace = trace.tb_next
        error = error.__cause__ or error.__context__

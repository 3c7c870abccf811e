"""explain and stats: the steps of a pipeline as a table, and what each did in the last iteration, or in all.

Steps come in the order of the data, sources first. Where several datasets come together, as in zip, the steps
of each are indented, the first with a dash. Steps of datasets that a function made follow, with a star.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache, partial
from reprlib import Repr
from typing import Any

import numpy as np

from feedline import ops
from feedline.block import Block
from feedline.graph import INFINITE, UNKNOWN, Node, Site, tree
from feedline.graph.shown import Shown, size_text
from feedline.run import History, Measure
from feedline.spec import ArraySpec, RaggedSpec, dtype_name
from feedline.structure import Structure, flatten

_USES_OF_AN_INDEX = (
    "  len(), ds[i], shuffle() without a buffer and runs that fill a cache together use an index."
)
_WIDEST = 60  # characters of a step and its arguments


@dataclass(frozen=True)
class StepStats:
    """One step in one iteration, or in all. Times are in seconds, without those of the steps before.

    A step of datasets that a function made, for interleave say, is one row for all of them.
    """

    step: str  # with its arguments in short
    site: Site | None  # where the user added it
    cardinality: int | None  # None for steps of datasets that a function made
    indexed: bool | None
    elements: int = 0
    blocks: int = 0
    bytes: int = 0
    busy: float = 0.0
    waiting: float = 0.0  # for other threads and processes
    workers: int = 0  # of its own, at the same time
    ahead: int = 0  # bytes, the most that were held before anyone asked for them
    deaths: int = 0  # of workers; what they were at was done again
    held: int = 0  # bytes, at present
    most_held: int = 0
    measured: bool = False  # False: it was not begun
    bottleneck: bool = False
    indent: str = ""  # before the step, in a table

    @property
    def spent(self) -> float:
        """Seconds of its own: who waits for workers waits for the step's own work."""
        return self.busy + (self.waiting if self.workers else 0.0)

    def with_measure(self, found: Measure | None) -> StepStats:
        if found is None:
            return self
        return replace(
            self,
            elements=found.elements,
            blocks=found.blocks,
            bytes=found.bytes,
            busy=found.busy,
            waiting=found.waiting,
            workers=found.workers,
            ahead=found.ahead,
            deaths=found.deaths,
            held=found.held,
            most_held=found.most_held,
            measured=True,
        )


@dataclass(frozen=True)
class MemoryStats:
    """Bytes that all steps hold together."""

    in_use: int
    most: int  # that was in use at a time
    limit: int | None  # what with_options says

    def __str__(self) -> str:
        limit = "" if self.limit is None else f", memory_limit {size_text(self.limit)}"
        return f"Memory: {size_text(self.in_use)} in use, {size_text(self.most)} at most{limit}."


class Stats:
    """What the steps did in the last iteration of a dataset: `rows` for programs; as text, a table.

    `total` has the rows of all `iterations` together. `memory` tells what they hold.
    """

    def __init__(
        self, rows: list[StepStats], iterations: int, memory: MemoryStats, total: Stats | None = None
    ) -> None:
        self.rows = rows
        self.iterations = iterations
        self.memory = memory
        self.total = self if total is None else total

    @property
    def bottleneck(self) -> StepStats | None:
        """The slowest step of the slowest part: parts run side by side, each in a thread of its own."""
        return next((row for row in self.rows if row.bottleneck), None)

    def __str__(self) -> str:
        lines = [_table([*_HEAD, *_MEASURES], map(_measured, self.rows))]
        if self.iterations:
            lines.append(str(self.memory))
        if any(row.indent.startswith("*") for row in self.rows):
            lines.append("*: in the datasets that functions made.")
        if not self.iterations:
            lines.append(
                "This Dataset object was not iterated yet; those that were made from it count apart."
            )
        elif self.iterations > 1:
            which = "All" if self.total is self else "The last of"
            more = "" if self.total is self else "; stats().total adds all of them up"
            lines.append(f"{which} {self.iterations:,} iterations of this Dataset object{more}.")
        return "\n".join(lines)

    __repr__ = __str__


def outline(node: Node, face: type) -> str:
    """The last steps in a line, back to where several datasets come together."""
    steps = [_call(node, face)]
    while len(node.inputs) == 1:
        (node,) = node.inputs
        if node.site is not None:
            steps.append(_call(node, face))
    return " -> ".join(reversed(steps))


def explain(node: Node, face: type) -> Shown:
    """The steps up to `node`. `face` is the class whose methods made them."""
    steps = _steps(node, face)
    lines = [_table(_HEAD, (_described(row) for _, row in steps))]
    lines += [f"{step.name}: {remark}" for step, _ in steps if (remark := step.remark())]
    hint = ops.index_hint(node, _uses_an_index)
    return Shown("\n".join([*lines, hint, _USES_OF_AN_INDEX] if hint else lines))


def _uses_an_index(node: Node) -> bool:
    return any(ops.is_indexed(one) for one in tree(node) if one is node or isinstance(one, ops.SharedCache))


def stats(node: Node, face: type, history: History) -> Stats:
    """The same with what was measured."""
    steps = _steps(node, face)
    limit = next((one.memory_limit for one in tree(node) if isinstance(one, ops.Options)), None)
    assert not isinstance(limit, str)
    all_rows = _rows(node, face, steps, history.total())
    total = Stats(all_rows, history.iterations, MemoryStats(*history.total_memory(), limit))
    memory = MemoryStats(*history.memory, limit)
    return Stats(_rows(node, face, steps, history.last), history.iterations, memory, total)


def _rows(
    node: Node, face: type, steps: list[tuple[Node, StepStats]], measures: Mapping[Any, Measure]
) -> list[StepStats]:
    of_node = dict(measures)  # threads may add to it meanwhile
    rows, nodes = [], []
    for each, row in steps:
        nodes.append(each)
        rows.append(row.with_measure(of_node.get(each)))
    for one in of_node.values():
        if one.nodes[0] not in nodes and one.nodes[0].site is not None:
            nodes.append(one.nodes[0])
            rows.append(_group_row(one, face).with_measure(one))
    slowest = _bottleneck(node, rows, nodes, of_node)
    if slowest is not None:
        rows[slowest] = replace(rows[slowest], bottleneck=True)
    return rows


def _steps(node: Node, face: type) -> list[tuple[Node, StepStats]]:
    """The steps before the node, and the node itself."""
    if len(node.inputs) == 1:
        found = _steps(node.inputs[0], face)
    else:
        found = [
            (each, replace(row, indent=("  " if number else "- ") + row.indent))
            for one in node.inputs
            for number, (each, row) in enumerate(_steps(one, face))
        ]
    if node.site is None:  # it is no step of the user's
        return found
    own = StepStats(_call(node, face), node.site, node.cardinality(), node.length() is not None)
    return [*found, (node, own)]


def _group_row(group: Measure, face: type) -> StepStats:
    """One step of all the datasets that a function made. How long each is would have to be asked of files."""
    first = group.nodes[0]
    texts = {_call(node, face) for node in group.nodes}
    text = texts.pop() if len(texts) == 1 else f"{first.name}(...)"
    number = f"{group.opened:,} x " if group.opened > 1 else ""
    return StepStats(number + text, first.site, None, None, indent="* ")


def _bottleneck(
    root: Node, rows: list[StepStats], nodes: list[Node], measures: Mapping[Any, Measure]
) -> int | None:
    """The number of the slowest row.

    A step that waits for another thread divides the pipeline: what is before it runs at the same time as what
    is after it. The slower part holds up the other, even one that has the slowest step of all.
    """
    part_of: dict[Node, Node] = {}
    makes_datasets: list[Node] = []

    def divide(node: Node, part: Node) -> None:
        part_of[node] = part
        if isinstance(node, ops.Interleave):
            makes_datasets.append(node)
        waits = node in measures and measures[node].waiting > 0
        for one in node.inputs:
            divide(one, one if waits else part)

    divide(root, root)
    # Which step made a dataset is not known; that it was the first that could is the best guess.
    maker = part_of[makes_datasets[-1]] if makes_datasets else root
    parts = [part_of.get(each, maker) for each in nodes]
    busy: dict[Node, float] = {}
    for row, part in zip(rows, parts, strict=True):
        busy[part] = busy.get(part, 0.0) + row.spent
    slowest = max(busy, key=lambda part: busy[part])
    if not busy[slowest]:
        return None
    return max((i for i, part in enumerate(parts) if part is slowest), key=lambda i: rows[i].spent)


# Steps as text


def _call(node: Node, face: type) -> str:
    """The step as a call, without the arguments that are the default."""
    method = getattr(face, node.name, None)
    parameters = _parameters(method) if method else {}
    names = [name for name in parameters if name != "self"]
    shown: list[str] = []
    for each in sorted(fields(node), key=lambda each: bool(each.kw_only)):
        value = getattr(node, each.name)
        if not each.compare or value is None or isinstance(value, Node | Structure):
            continue
        if each.name in parameters:
            if not _is(value, parameters[each.name].default):
                first = each.name == names[0]
                shown.append(_short(value) if first else f"{each.name}={_short(value)}")
        elif not method:
            shown.append(f"{each.name}={_short(value)}")
        elif not shown or any(one.kind is one.VAR_POSITIONAL for one in parameters.values()):
            # Named otherwise than the argument. What follows such a one is not of the user.
            shown.append(_short(value))
    text = ", ".join(shown)
    room = _WIDEST - len(node.name) - 2
    name = node.site.quoted if node.site else ""
    return f"{node.name}({text if len(text) <= room else text[: room - 3] + '...'}){name}"


@lru_cache
def _parameters(method: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(method).parameters


def _is(value: Any, default: Any) -> bool:
    if isinstance(value, bool | int | float | str):
        return bool(value == default) or (value == -1 and default is None)  # None is "no limit" for users
    return value is default


_repr = Repr()
_repr.maxstring = _repr.maxother = 30


def _short(value: Any) -> str:
    if isinstance(value, Block):
        return ", ".join(map(_short, flatten(value.spec)[0]))
    if isinstance(value, np.ndarray | ArraySpec | RaggedSpec):
        shape = "" if value.shape == () else f"[{_shape(value.shape)}]"
        return dtype_name(value.dtype) + shape
    if isinstance(value, tuple) and value and all(isinstance(one, Node) for one in value):
        return f"{len(value)} datasets"
    if isinstance(value, partial):
        return f"partial({_short(value.func)})"
    if callable(value):
        return _name(value)
    return _repr.repr(value)


def _shape(shape: tuple[int | None, ...] | None) -> str:
    return "..." if shape is None else ", ".join("?" if size is None else str(size) for size in shape)


def _name(function: Callable[..., Any]) -> str:
    name = getattr(function, "__name__", type(function).__name__)
    return "lambda" if name == "<lambda>" else str(name)


# Tables

_HEAD = ["step", "added at", "cardinality", "indexed"]
_MEASURES = ["elements", "blocks", "bytes", "busy", "waiting", "ahead", "held at most", "workers", ""]
_LEFT = {"step", "added at", "indexed", ""}


def _described(row: StepStats) -> list[str]:
    named = {INFINITE: "infinite", UNKNOWN: "unknown", None: ""}.get(row.cardinality)
    size = f"{row.cardinality:,}" if named is None else named
    indexed = {True: "yes", False: "no", None: ""}[row.indexed]
    return [row.indent + row.step, _place(row.site), size, indexed]


def _place(site: Site | None) -> str:
    if site is None:
        return ""
    here = os.getcwd() + os.sep
    return f"{site.file.removeprefix(here)}:{site.line}"


def _measured(row: StepStats) -> list[str]:
    counts = ["-"] * 5
    if row.measured:
        times = [f"{seconds:.3f} s" for seconds in (row.busy, row.waiting)]
        counts = [f"{row.elements:,}", f"{row.blocks:,}", size_text(row.bytes), *times]
    ahead = size_text(row.ahead) if row.ahead else ""
    held = size_text(row.most_held) if row.most_held else ""
    workers = f"{row.workers}" if row.workers else ""
    if row.deaths:
        workers += f", {row.deaths} died"
    return [*_described(row), *counts, ahead, held, workers, "<- bottleneck" if row.bottleneck else ""]


def _table(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = [head, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if title in _LEFT else cell.rjust(width)
            for cell, width, title in zip(line, widths, head, strict=True)
        ).rstrip()
        for line in lines
    )

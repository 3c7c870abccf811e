"""What to do where a pipeline has no length, or cannot be read by number, because files lack an index."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

from feedline.errors import FeedlineError
from feedline.graph import Node, tree
from feedline.ops.tfrecords import TFRecords
from feedline.records.beside import index_paths
from feedline.records.indexing import load_index
from feedline.records.reading import open_reader


def index_hint(node: Node, is_answered: Callable[[Node], bool]) -> str:
    """A sentence that says which file lacks an index, and how to write it; "" where that would not help.

    `is_answered` says of a pipeline whether it can do what was asked. It is given this one as it would be
    with all indexes.
    """
    lacking = [one for one in tree(node) if isinstance(one, TFRecords) and one.length() is None]
    if not lacking or not is_answered(_with_indexes(node)):
        return ""
    return _hint(lacking[0])


def is_indexed(node: Node) -> bool:
    return node.length() is not None


def _hint(node: TFRecords) -> str:
    if node.skip:
        return (
            'on_corrupt="skip" drops records while it reads, so they have no fixed numbers. Read without it.'
        )
    path = next((path for path in node.paths if load_index(path) is None), None)
    if path is None or not os.path.isfile(path):
        return ""
    if node.compression not in ("auto", "none") or _is_compressed(path):
        return f"{path} is compressed, so it cannot be indexed. Write it again without compression."
    places = sorted({os.path.dirname(each) or "." for each in node.paths})
    where = shlex.join(node.paths if len(node.paths) < 4 else places[:3]) + " ..." * (len(places) > 3)
    is_stale = any(map(os.path.exists, index_paths(path)))
    return (
        f"{path} {'has changed or was copied since it was indexed' if is_stale else 'has no index'}. "
        f"To write one:  feedline index {where}\n"
        "  In Python:  feedline.records.index(path). Then make the dataset again."
    )


def _is_compressed(path: str) -> bool:
    try:
        return open_reader(path, "auto", resync=False).compression != "none"
    except (FeedlineError, OSError):
        return False


def _with_indexes(node: Node) -> Node:
    if isinstance(node, TFRecords):
        return _Indexed(**{each.name: getattr(node, each.name) for each in fields(node)})
    changed: dict[str, Any] = {}
    for each in fields(node):
        value = getattr(node, each.name)
        if isinstance(value, Node):
            changed[each.name] = _with_indexes(value)
        elif isinstance(value, tuple) and any(isinstance(one, Node) for one in value):
            changed[each.name] = tuple(_with_indexes(one) for one in value)
    return replace(node, **changed) if changed else node


@dataclass(frozen=True, eq=False)
class _Indexed(TFRecords):
    def length(self) -> int:
        return 1000

"""What to do where a pipeline has no length, or cannot be read by number, because files lack an index."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass, fields

from feedline.errors import FeedlineError
from feedline.graph import Node, tree
from feedline.graph.node import with_inputs
from feedline.ops.tfrecords import TFRecords
from feedline.records.known_indexes import Indexes
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
    known = Indexes()
    path = next((path for path in node.paths if known.of(path) is None), None)
    if path is None or not os.path.isfile(path):
        return ""
    if node.compression not in ("auto", "none") or _is_compressed(path):
        return f"{path} is compressed, so it cannot be indexed. Write it again without compression."
    places = sorted({os.path.dirname(each) or "." for each in node.paths})
    listed = list(node.paths) if len(node.paths) < 4 else places[:3]
    has_more = len(node.paths) > 3 and len(places) > 3
    where = shlex.join(listed) + " ..." * has_more
    in_python = f"{str(listed)[:-1]}, ...]" if has_more else str(listed)
    state = "has changed or was copied since it was indexed" if known.has_stale(path) else "has no index"
    return (
        f"{path} {state}. "
        f"To write one:  feedline index {where}\n"
        f"  In Python:  feedline.records.index({in_python}). Then make the dataset again."
    )


def _is_compressed(path: str) -> bool:
    try:
        return open_reader(path, "auto", resync=False).compression != "none"
    except (FeedlineError, OSError):
        return False


def _with_indexes(node: Node) -> Node:
    if isinstance(node, TFRecords):
        return _Indexed(**{each.name: getattr(node, each.name) for each in fields(node)})
    return with_inputs(node, _with_indexes)


@dataclass(frozen=True, eq=False)
class _Indexed(TFRecords):
    def length(self) -> int:
        return 1000

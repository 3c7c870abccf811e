"""list_files: the paths that match a pattern."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from feedline.block import Block
from feedline.column import Bytes
from feedline.errors import UsageError
from feedline.graph import Context, Indices, Node, Peek, Source, State, Stream
from feedline.graph.indexed import InOrder
from feedline.records.beside import MANIFEST_SUFFIX, is_feedlines
from feedline.records.file_facts import file_facts
from feedline.records.paths import closest_parent, is_file
from feedline.records.shard_files import is_manifest
from feedline.spec import STRING, ArraySpec
from feedline.structure import flatten

_STRUCTURE = flatten(0)[1]

Pattern: TypeAlias = str | bytes | os.PathLike[str]


@dataclass(frozen=True, eq=False)
class ListFiles(Node):
    """Files are looked for once, when the dataset is made."""

    paths: tuple[bytes, ...]

    @classmethod
    def of(cls, pattern: Pattern | Iterable[Pattern], **site: Any) -> ListFiles:
        one = isinstance(pattern, str | bytes | os.PathLike) or not isinstance(pattern, Iterable)
        patterns = [os.fsdecode(_checked(each)) for each in cast(Any, [pattern] if one else pattern)]
        found = sorted(os.fsencode(path) for each in patterns for path in _matches(each))
        if not found:
            raise UsageError(
                f"list_files: no file matches {', '.join(patterns) or 'an empty list of patterns'}.\n"
                f"  Patterns without a leading / start in {os.getcwd()}."
                + "".join(f"\n  {parent}" for parent in dict.fromkeys(map(closest_parent, patterns)))
            )
        return cls(tuple(found), **site)

    def sources(self) -> list[Source]:
        return [Source(*facts) for facts in file_facts(map(os.fsdecode, self.paths))]

    def length(self) -> int:
        return len(self.paths)

    def cardinality(self) -> int:
        return len(self.paths)

    def spec(self, peek: Peek | None) -> Any:
        return ArraySpec((), STRING)

    def gather(self, indices: Indices, context: Context) -> Block:
        strings = [self.paths[number] for number in indices.tolist()]
        return Block._trusted(_STRUCTURE, [Bytes.of(strings)], len(strings))

    def open(self, context: Context, state: State) -> Stream:
        return InOrder(self, context, state)


@dataclass(frozen=True, eq=False)
class Files(ListFiles):
    """Paths of which the next step makes no other use than to read the files."""

    file_fields = frozenset({"paths"})


def _checked(pattern: Any) -> Any:
    if not isinstance(pattern, str | bytes | os.PathLike):
        raise UsageError(f"list_files: a pattern must be a str or a path, not {type(pattern).__name__}.")
    return pattern


def _matches(pattern: str) -> list[str]:
    """As tf.data: hidden files match, too; ** is *; a backslash makes the next character an ordinary one.

    Unlike tf.data's, a pattern leaves out what feedline wrote beside data: tf.data fails when it reads that;
    and pipes, sockets and devices, where a reader could wait forever.
    """
    fixed = re.split(r"[*?[\\]", pattern, maxsplit=1)[0]
    if fixed == pattern:
        return [pattern] if os.path.exists(pattern) else []
    if "/" not in fixed:
        pattern = f"./{pattern}"
    ours = re.sub(r"\\(.)|\[\^", lambda found: glob.escape(found[1]) if found[1] else "[!", pattern)
    begin = pattern.rfind("/", 0, len(fixed)) + 1  # directories in front of the first * are the caller's word
    found = glob.glob(ours.rstrip("/"), include_hidden=True)
    return [
        path
        for path in found
        if not any(map(is_feedlines, path[begin:].split("/")))
        and not _is_old(path)
        and (is_file(path) or os.path.isdir(path))
    ]


def _is_old(path: str) -> bool:
    """The visible manifest of an older version. Others use such names, too."""
    return path.endswith(MANIFEST_SUFFIX) and is_manifest(path)

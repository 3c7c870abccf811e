"""The elements of a dataset -> a set of TFRecord files."""

from __future__ import annotations

import os
from collections.abc import Iterable

from feedline.block import Block
from feedline.column import Bytes, Objects
from feedline.errors import UsageError
from feedline.structure import Dict, Leaf
from feedline.write.sharded import ShardedWriter


def save(blocks: Iterable[Block], directory: str | os.PathLike[str], shards: int | None) -> None:
    with ShardedWriter(directory, shards=shards) as writer:
        for block in blocks:
            _write(writer, block)


def _write(writer: ShardedWriter, block: Block) -> None:
    root, columns = block.structure.root, block.columns
    if isinstance(root, Leaf) and isinstance(columns[0], Bytes) and not columns[0].shape:
        writer._write_each(columns[0])
    elif not isinstance(root, Dict) or not all(isinstance(child, Leaf) for child in root.children):
        raise UsageError(
            f"save_tfrecords: an element must be a dict of features, or bytes, and not {block.structure}.\n"
            '  Give its parts names, as map(lambda x, y: {"x": x, "y": y}) does.'
        )
    elif any(isinstance(column, Objects) for column in columns):  # of several shapes
        for row in block:
            writer.write(row)
    else:
        writer._write_each(block.structure.unflatten(columns))

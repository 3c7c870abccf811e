"""The names of what feedline writes beside data files. All are hidden; older versions wrote visible ones.

.x.tfrecord.flindex     the index of x.tfrecord (records/indexing); it was x.tfrecord.flindex
"""

from __future__ import annotations

import os
from hashlib import blake2b

INDEX_SUFFIX = ".flindex"

_LONGEST_NAME = 255  # bytes, on every file system of Linux


def index_path(path: str) -> str:
    """Where the index of a file is written.

    >>> index_path("data/x.tfrecord")
    'data/.x.tfrecord.flindex'
    """
    folder, name = os.path.split(path)
    hidden = f".{name}{INDEX_SUFFIX}"
    if len(os.fsencode(hidden)) > _LONGEST_NAME:
        hidden = f".feedline-{blake2b(os.fsencode(name), digest_size=8).hexdigest()}{INDEX_SUFFIX}"
    return os.path.join(folder, hidden)


def index_paths(path: str) -> tuple[str, str]:
    """Where the index of a file may lie: the second is where older versions wrote it.

    >>> index_paths("x.tfrecord")
    ('.x.tfrecord.flindex', 'x.tfrecord.flindex')
    """
    return index_path(path), path + INDEX_SUFFIX

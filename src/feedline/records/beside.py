"""The names of what feedline writes beside data files. All are hidden.

    .x.tfrecord.flindex             the index of x.tfrecord (records/indexing)
    .flindex                        the indexes of many files of the directory (records/directory_index)
    .data.manifest.json             the manifest of a set (records/shard_files)
    .data.lock                      who writes the set (records/holder)
    .data.{set,writing,removed}-ID  a set that is being written (records/publishing, write/runs)
    .feedline-ID...                 a file that is being written (records/new_file)

Older versions wrote indexes and manifests without the dot. Those are still read.
"""

from __future__ import annotations

import os
import re
from hashlib import blake2b

INDEX_SUFFIX = ".flindex"
MANIFEST_SUFFIX = ".manifest.json"

_LONGEST_NAME = 255  # bytes, on every file system of Linux
_HIDDEN = re.compile(
    r"\.(.+\.manifest\.json|.+\.lock|.+\.(set|writing|removed)-[0-9a-f]{16}|feedline-[0-9a-f]{16}[-.].+"
    r"|.+\.flindex\.\d+)",  # an index that an older version was writing
    re.DOTALL,
)


def is_feedlines(name: str) -> bool:
    """Is this the name of something that feedline wrote, and that is no data?

    The visible manifest of an older version is not among them: others use such names, too.

    >>> [is_feedlines(name) for name in (".data.lock", "x.tfrecord.flindex", "x.tfrecord", ".mine")]
    [True, True, False, False]
    """
    return name.endswith(INDEX_SUFFIX) or _HIDDEN.fullmatch(name) is not None


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


def directory_index_path(directory: str) -> str:
    """Where the indexes of many files of a directory are written. No file's own index has this name.

    >>> directory_index_path("data")
    'data/.flindex'
    """
    return os.path.join(directory, INDEX_SUFFIX)

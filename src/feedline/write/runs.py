"""Runs of a writer, this one and those before it, in the hidden directories beside the shards.

`.<prefix>.writing-<id>` is one in which producers write, or did until their writer was killed. To rename it
takes it away from all who write in it. What is to be removed is renamed first, to `.<prefix>.removed-<id>`:
half of a run must never be taken for one that can be resumed. Only who holds the directory (records/holder)
may call what is here.
"""

from __future__ import annotations

import os
import secrets
import shutil
from contextlib import suppress

from feedline.records.lock_file import who_i_am
from feedline.records.new_file import sync_directory
from feedline.records.shard_files import Manifest, hidden_ids
from feedline.records.unfinished import WRITER
from feedline.write.parts import forget_failure, keep_sealed, write_file


def new_id() -> str:
    return secrets.token_hex(8)


def path_of(directory: str, prefix: str, id: str) -> str:
    return os.path.join(directory, f".{prefix}.writing-{id}")


def begin(directory: str, prefix: str) -> str:
    path = path_of(directory, prefix, new_id())
    os.mkdir(path)
    try:
        _sign(path)
        sync_directory(directory)
    except BaseException:  # Ctrl-C, say: it takes a while
        shutil.rmtree(path, ignore_errors=True)
        raise
    return path


def take_over(directory: str, prefix: str, id: str) -> str:
    """The run of a writer that is gone, cut down to what was sealed."""
    path = fence(directory, prefix, id, new_id())
    for name in os.listdir(path):
        home = os.path.join(path, name)
        if name.startswith("process-"):
            shutil.rmtree(home)
        elif os.path.isdir(home):
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(home, "owner"))  # which a process of that run may still have locked
            forget_failure(home)
            keep_sealed(home)
    _sign(path)
    return path


def _sign(path: str) -> None:
    """Say whose run it is, to those who find it when the writer is gone."""
    write_file(os.path.join(path, WRITER), who_i_am().encode(errors="replace"))


def fence(directory: str, prefix: str, id: str, becomes: str) -> str:
    """Take the run away from all its producers: each call of theirs that comes after this fails."""
    path = path_of(directory, prefix, becomes)
    os.rename(path_of(directory, prefix, id), path)
    sync_directory(directory)
    return path


def left(directory: str, prefix: str, committed: Manifest | None) -> list[str]:
    """The ids of runs that were cut short. What has no use any more is removed: of sets that were committed,
    and what was being removed."""
    for id in hidden_ids(directory, prefix, "removed"):
        _remove(os.path.join(directory, f".{prefix}.removed-{id}"))
    ids = hidden_ids(directory, prefix, "writing")
    if committed is not None and committed.id in ids:
        remove(directory, prefix, committed.id)
        ids.remove(committed.id)
    return ids


def remove(directory: str, prefix: str, id: str) -> None:
    path = os.path.join(directory, f".{prefix}.removed-{id}")
    with suppress(FileNotFoundError):
        os.rename(path_of(directory, prefix, id), path)
        _remove(path)


def _remove(path: str) -> None:
    # A producer that has not noticed yet may make a file just now. The next writer removes what is left then.
    shutil.rmtree(path, ignore_errors=True)

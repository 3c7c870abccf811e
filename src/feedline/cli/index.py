"""feedline index: write indexes beside files."""

from __future__ import annotations

import os

import typer

from feedline import records
from feedline.cli.terminal import (
    FINDINGS,
    Files,
    Json,
    plural,
    printable,
    progress,
    say,
    show,
    show_json,
    size,
)
from feedline.errors import FeedlineError
from feedline.records.index_files import index_each


def index(files: Files, as_json: Json = False) -> None:
    """Write an index beside plain files, for a length, random access and a full shuffle.

    Indexes are hidden files: `.x.tfrecord.flindex` for `x.tfrecord`; 64 or more files of a directory share
    one, `.flindex`. A file whose index fits it is not read again. Compressed files cannot be indexed. A line
    for each file; exit 1 if there is one without an index.
    """
    paths = records.resolve(files)
    total_records = total_bytes = failures = 0
    with progress("indexing", paths) as report_for:
        indexed = index_each(paths, report_for(*paths))
    for one in indexed:
        try:
            if one.trouble is not None:
                raise one.trouble
            found, bytes = len(one.result()), os.path.getsize(one.path)
        except (FeedlineError, OSError) as error:
            failures += 1
            _show_failure(one.path, error, as_json)
            continue
        total_records += found
        total_bytes += bytes
        if as_json:
            show_json({"path": one.path, "records": found, "bytes": bytes})
        else:
            show(f"{found:>13,}  {size(bytes):>11}  {printable(one.path)}")
    failed = f"; {plural(failures, 'file')} not indexed" if failures else ""
    say(
        f"{plural(len(paths) - failures, 'file')} indexed, {plural(total_records, 'record')}, "
        f"{size(total_bytes)}{failed}."
    )
    if failures:
        raise typer.Exit(FINDINGS)


def _show_failure(path: str, error: Exception, as_json: bool) -> None:
    reason = str(error) if isinstance(error, FeedlineError) else f"{path}: {error}"
    if as_json:
        show_json({"path": path, "error": reason})
    else:
        show(f"{'not indexed':>13}  {'':>11}  {printable(reason.splitlines()[0])}")

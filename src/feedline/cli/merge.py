"""feedline merge: one file of many."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from feedline import records
from feedline.cli.terminal import Files, Json, plural, progress, say, show_json, size


def merge(
    files: Files,
    out: Annotated[str, typer.Argument(metavar="OUT", help="The new file; it must not exist.")],
    as_json: Json = False,
) -> None:
    """Join files, in the order given, to one new file: all plain, or all gzip.

    Every record is checked. If one is damaged, or anything else fails, there is no OUT.
    """
    paths = records.resolve(files)
    with progress("merging", paths) as report_for:
        result = records.merge(paths, out, progress=report_for(*paths))
    if as_json:
        show_json(asdict(result))
    say(f"{out}: {plural(result.records, 'record')} of {plural(result.files, 'file')}, {size(result.bytes)}.")

"""feedline reshard: the records of files, divided among so many new ones."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from feedline import records
from feedline.cli.terminal import Files, Json, plural, progress, say, show_json


def reshard(
    files: Files,
    directory: Annotated[str, typer.Argument(metavar="DIRECTORY", help="Where the new files go.")],
    shards: Annotated[
        int, typer.Option("--shards", "-n", help="How many there are to be.", show_default=False)
    ],
    prefix: Annotated[str, typer.Option(help="What their names begin with.")] = "data",
    as_json: Json = False,
) -> None:
    """Divide the records of files, in order, among so many new files: PREFIX-00000-of-00016.tfrecord.

    Every record is checked. The new files appear together, with a manifest, or not at all. They take the
    place of a set that feedline wrote there before with this prefix.
    """
    paths = records.resolve(files)
    with progress("dividing", paths) as report_for:
        result = records.reshard(files, directory, shards, prefix=prefix, progress=report_for(*paths))
    if as_json:
        show_json(asdict(result))
    divided = f"{plural(result.records, 'record')} of {plural(result.files, 'file')}"
    say(f"{result.directory}: {divided}, in {plural(result.shards, 'shard')}.")

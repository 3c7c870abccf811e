"""feedline count: how many records are in each file."""

from __future__ import annotations

from feedline import records
from feedline.cli.terminal import Files, Json, plural, progress, say, show, show_json


def count(files: Files, as_json: Json = False) -> None:
    """Count the records of each file.

    A count says nothing about what is in the records: see `verify`.
    """
    paths = records.resolve(files)
    total = 0
    with progress("counting", paths) as report_for:
        for path in paths:
            found = records.count(path, progress=report_for(path))
            total += found
            if as_json:
                show_json({"path": path, "records": found})
            else:
                show(f"{found:>13,}  {path}")
    if len(paths) > 1:
        say(f"{total:>13,}  in {plural(len(paths), 'file')}")

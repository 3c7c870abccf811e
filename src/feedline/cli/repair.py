"""feedline repair: the good records of a damaged file, in a new file."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from feedline import records
from feedline.cli.terminal import FINDINGS, Json, plural, progress, say, show, show_json
from feedline.cli.verify import describe


def repair(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The damaged file; it is only read.")],
    out: Annotated[str, typer.Argument(metavar="OUT", help="Where the good records go.")],
    as_json: Json = False,
) -> None:
    """Copy every good record of FILE to OUT, and list what was dropped.

    Exit 0 if FILE was sound, 1 if something was dropped: OUT is complete and sound in both cases.
    """
    with progress("repairing", [file]) as report_for:
        result = records.repair(file, out, progress=report_for(file))
    if as_json:
        show_json(asdict(result))
    else:
        for finding in result.findings:
            show(describe(finding))
    left_out = plural(len(result.findings), "damaged place")
    say(f"{out}: {plural(result.kept, 'record')} kept, {left_out} left out.")
    if result.findings:
        raise typer.Exit(FINDINGS)

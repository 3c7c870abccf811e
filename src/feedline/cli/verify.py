"""feedline verify: every damaged place in the files."""

from __future__ import annotations

from dataclasses import asdict

import typer

from feedline import records
from feedline.cli.terminal import FINDINGS, Files, Json, plural, progress, say, show, show_json, size


def verify(files: Files, as_json: Json = False) -> None:
    """Check every length, checksum and compressed stream. A line for each finding; exit 1 if there is one."""
    paths = records.resolve(files)
    found = total_records = total_bytes = 0
    with progress("verifying", paths) as report_for:
        for path in paths:
            result = records.verify(path, progress=report_for(path))
            found += len(result.findings)
            total_records += result.records
            total_bytes += result.bytes
            for finding in result.findings:
                if as_json:
                    show_json(asdict(finding))
                else:
                    show(describe(finding))
    say(
        f"{plural(len(paths), 'file')}, {plural(total_records, 'good record')}, {size(total_bytes)}: "
        f"{plural(found, 'finding') if found else 'no findings'}."
    )
    if found:
        raise typer.Exit(FINDINGS)


def describe(finding: records.Finding) -> str:
    place = "" if finding.record is None else f"record {finding.record:,} "
    place += "" if finding.offset is None else f"at byte {finding.offset:,}"
    line = ": ".join(filter(None, (finding.path, place.strip(), finding.what)))
    return "\n".join([line, *(f"  {each}" for each in finding.remedy.splitlines())])

"""feedline cache: what the caches that runs share hold, whether it is sound, and what may go."""

from __future__ import annotations

import os
import time
from dataclasses import asdict, fields
from datetime import datetime
from textwrap import indent
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Table

from feedline.cache.location import Cache, CacheEntry, limit_of
from feedline.cache.plan import how_shared
from feedline.cli.terminal import (
    FINDINGS,
    Command,
    Json,
    plural,
    printable,
    progress_bar,
    say,
    show,
    show_json,
    size,
    table_console,
)
from feedline.errors import CacheError, UsageError
from feedline.graph import Fingerprint

Location = Annotated[
    str,
    typer.Argument(
        metavar="LOCATION", help="A directory, redis://host:port/db, s3://bucket/prefix.", show_default=False
    ),
]
Key = Annotated[str, typer.Argument(metavar="KEY", help="Of an entry; its first digits are enough.")]
Blobs = Annotated[
    str | None, typer.Option(help="Where the large parts of a cache in Redis are.", show_default="none")
]

SHORT = 8  # digits of a key that are shown, unless it takes more to tell them apart

cache = typer.Typer(help="Look after a cache that runs share.", no_args_is_help=True)


def _at(location: str, blobs: str | None) -> Cache:
    """The cache there. A run may yet make its directory, but a command for none was given a wrong path."""
    found = Cache(location, blobs=blobs)
    if "://" not in location and not os.path.exists(found.location):
        raise UsageError(
            f"{found.location}: there is no such directory, so no run has kept anything there.\n"
            "  Give the location that the pipeline has in .cache(...)."
        )
    return found


@cache.command("ls", cls=Command)
def list_entries(location: Location, blobs: Blobs = None, as_json: Json = False) -> None:
    """List the entries. Those that were used last come first, and those at the end are evicted first."""
    found = _at(location, blobs)
    entries = found.entries()
    if as_json:
        for entry in entries:
            show_json(_facts(entry))
    elif entries:
        _show_table(entries)
    say(f"{found.location}: {_counted(entries)}, {size(sum(entry.bytes for entry in entries))}.")


@cache.command("show", cls=Command)
def show_entry(location: Location, key: Key, blobs: Blobs = None, as_json: Json = False) -> None:
    """Show an entry: its pipeline and what the fingerprint follows from, its size, and who uses it."""
    found = _at(location, blobs)
    entry = found.entry(key)
    filling = "" if entry.trouble else found.filling(entry.key)
    if as_json:
        show_json(_facts(entry) | {"filling": filling, "pipeline": dict(entry.pipeline)})
        return
    show(f"entry {entry.key}")
    facts = {
        "pipeline": entry.steps or "not told",
        "size": size(entry.bytes),
        "elements": "not known yet" if entry.elements is None else f"{entry.elements:,}",
        "parts": _parts(entry),
        "sharing": how_shared(entry.sharing, filling),
        "made": _date(entry.made) if entry.made else "",
        "last used": _date(entry.used) if entry.used else "",
        "hits": f"{entry.hits:,}",
        "in use by": "\n             ".join(entry.users) or "nobody",
        "trouble": entry.trouble,
    }
    for name, text in facts.items():
        if text:
            show(f"  {name:<10} {printable(text)}")
    if entry.pipeline:
        show("fingerprint of")
        show(indent(printable(Fingerprint(entry.pipeline, "").explain()), "  "))


@cache.command(cls=Command)
def verify(
    location: Location,
    key: Annotated[str, typer.Argument(metavar="[KEY]", help="Of an entry.", show_default="all")] = "",
    blobs: Blobs = None,
    as_json: Json = False,
) -> None:
    """Check every part: its checksum, and whether it fits its entry. A line for each finding; exit 1 if any.

    Nothing is changed: a run that meets a damaged part computes it again.
    """
    found = _at(location, blobs)
    entries = [found.entry(key)] if key else found.entries()
    total = sum(entry.bytes for entry in entries)
    with progress_bar("verifying", total) as report:
        findings = found.verify(key or None, progress=report)
    for finding in findings:
        if as_json:
            show_json(asdict(finding))
        else:
            show(printable(str(finding)))
    result = plural(len(findings), "finding") if findings else "no findings"
    say(f"{found.location}: {_counted(entries)}, {size(total)}: {result}.")
    if findings:
        raise typer.Exit(FINDINGS)


@cache.command("rm", cls=Command)
def remove(
    location: Location,
    keys: Annotated[list[str], typer.Argument(metavar="KEY...", help="Of entries.", show_default=False)],
    blobs: Blobs = None,
    as_json: Json = False,
) -> None:
    """Remove entries. Those that a live run has open stay: exit 1, with who uses them."""
    found = _at(location, blobs)
    entries = {entry.key: entry for entry in map(found.entry, keys)}  # all are there, or none is removed
    removed = []
    for entry in entries.values():
        try:
            found.remove(entry.key)
        except CacheError as error:
            say(printable(f"feedline: {error}"))
        else:
            removed.append(entry)
    _show_removed(found.location, removed, as_json)
    if len(removed) < len(entries):
        raise typer.Exit(FINDINGS)


@cache.command(cls=Command)
def evict(
    location: Location,
    max_bytes: Annotated[
        str, typer.Argument(metavar="MAX_BYTES", help="What may stay: 100GB, 0.", show_default=False)
    ],
    blobs: Blobs = None,
    as_json: Json = False,
) -> None:
    """Remove the entries that were not used for the longest time, until the rest has MAX_BYTES at most.

    Those that a live run has open stay: exit 1, with who uses them, if they have more than that.
    """
    limit = limit_of(max_bytes)
    found = _at(location, blobs)
    _show_removed(found.location, found.evict(limit), as_json)
    left = found.entries()
    total = sum(entry.bytes for entry in left)
    if total > limit:
        for entry in left:
            for user in entry.users:
                say(f"feedline: entry {entry.key}, {size(entry.bytes)}, is in use by {printable(user)}.")
        say(f"feedline: {found.location}: {size(total)} stay, more than {max_bytes}.")
        raise typer.Exit(FINDINGS)


def _show_removed(location: str, removed: list[CacheEntry], as_json: bool) -> None:
    for entry in removed:
        if as_json:
            show_json(_facts(entry))
        else:
            show(entry.key)
    say(f"{location}: {_counted(removed)} removed, {size(sum(entry.bytes for entry in removed))}.")


def _show_table(entries: list[CacheEntry]) -> None:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))  # narrow: there is much to show in 80 columns
    for name in ("key", "size", "elements", "parts", "made", "used", "hits"):
        table.add_column(name, no_wrap=True)
    table.add_column("in use by")
    table.add_column("pipeline")
    digits = _digits([entry.key for entry in entries])
    now = time.time()
    for entry in entries:
        table.add_row(
            entry.key[:digits],
            size(entry.bytes),
            "" if entry.elements is None else f"{entry.elements:,}",
            _parts(entry),
            _ago(now - entry.made) if entry.made else "",
            _ago(now - entry.used) if entry.used else "",
            f"{entry.hits:,}",
            printable("\n".join(user.partition(" since ")[0] for user in entry.users)),
            printable(entry.trouble or entry.steps),
        )
    table_console().print(table)


def _facts(entry: CacheEntry) -> dict[str, Any]:
    """For JSON, without the long part."""
    return {each.name: getattr(entry, each.name) for each in fields(entry) if each.name != "pipeline"}


def _parts(entry: CacheEntry) -> str:
    if entry.complete:
        return f"all {entry.parts:,}"
    return f"{entry.parts:,} of {'?' if entry.parts_in_all is None else f'{entry.parts_in_all:,}'}"


def _counted(entries: list[CacheEntry]) -> str:
    return f"{len(entries):,} {'entry' if len(entries) == 1 else 'entries'}"


def _digits(keys: list[str]) -> int:
    """How many digits tell all keys apart.

    >>> _digits(["0123456789", "0123456799"]), _digits(["0123456789", "1123456789"])
    (9, 8)
    """
    digits = SHORT
    while len({key[:digits] for key in keys}) < len(keys):
        digits += 1
    return digits


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).isoformat(" ", "seconds")


def _ago(seconds: float) -> str:
    """
    >>> [_ago(seconds) for seconds in (0.3, 59, 3_600, 36_000, 86_400 * 30)]
    ['0 s', '59 s', '60 min', '10 h', '30 days']
    """
    for unit, length, most in (("s", 1, 120), ("min", 60, 120), ("h", 3600, 48)):
        if seconds < most * length:
            return f"{max(0, seconds) / length:.0f} {unit}"
    return f"{seconds / 86_400:.0f} days"

"""What the commands share: the two consoles, JSON, progress, and how errors become exit codes.

Findings go to stdout; progress, summaries and errors go to stderr. What a user or a file can cause never
shows a traceback.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from typer.core import TyperCommand, TyperGroup, TyperOption

from feedline.errors import FeedlineError, UsageError

Files = Annotated[
    list[str], typer.Argument(metavar="FILES...", help="Paths, globs or directories.", show_default=False)
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")]
Report = Callable[[int], None]

SHOW_PROGRESS_FROM = 100_000_000  # bytes
FINDINGS, MISUSE, INTERRUPTED, PIPE_CLOSED = 1, 2, 128 + 2, 128 + 13


class Commands(TyperGroup):
    """Runs one command, and turns what may go wrong into a message on stderr and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            try:
                return super().invoke(ctx)
            finally:
                sys.stdout.flush()
        except BrokenPipeError:
            # Whoever read our output (`| head -1`) has enough. Python will flush stdout once more on its way
            # out, and would complain there, so what is left goes nowhere.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(PIPE_CLOSED) from None
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except OSError as error:
            told = f"{error.filename}: {error.strerror}" if error.filename else str(error)
            say(printable(f"feedline: {told}."))
            raise typer.Exit(MISUSE if isinstance(error, FileNotFoundError) else FINDINGS) from None


class Command(TyperCommand):
    """One command. Errors of the library name its options and arguments, not those of Python functions."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except FeedlineError as error:
            names = {
                each.name: max(each.opts, key=len) if isinstance(each, TyperOption) else each.name.upper()
                for each in self.params
                if each.name
            }
            say(printable(f"feedline: {in_options(str(error), names)}"))
            raise typer.Exit(MISUSE if isinstance(error, UsageError) else FINDINGS) from None


def in_options(text: str, names: Mapping[str, str]) -> str:
    """An error message that names arguments of Python, as it is on the command line.

    >>> in_options("reshard(shards=0): give a number. Give directory= the path.",
    ...            {"shards": "--shards", "directory": "DIRECTORY"})
    '--shards 0: give a number. Give DIRECTORY the path.'
    """
    for name, shown in names.items():
        argument = rf"(?<![\w/.-]){name}="  # a path may hold the same
        text = re.sub(rf"(?<![\w/.-])\w+\((?:[^()=]*, )?{name}=([^()]*)\)", rf"{name}=\1", text)
        text = re.sub(rf"{argument}(['\"])(.*?)\1", rf"{shown} \2", text)
        text = re.sub(rf"{argument}(\w+)", rf"{shown} \1", text)
        text = re.sub(rf"{argument}(\.\.\.)?", shown, text)
    return "\n".join(line for line in text.splitlines() if "on_corrupt=" not in line)


def say(line: str) -> None:
    """A line for the person at the terminal: a summary or an error."""
    print(line, file=sys.stderr)


def printable(text: str) -> str:
    """What is in a file or in a cache is a stranger's word, and not for the terminal to obey.

    >>> printable("red: \\x1b[31m")
    'red: ?[31m'
    """
    return "".join(sign if sign.isprintable() or sign == "\n" else "?" for sign in text)


def show(line: str) -> None:
    """A line of the result."""
    print(line)


def show_json(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False, allow_nan=False))


def table_console() -> Console:
    """For tables on stdout. In a pipe nothing is cut off to fit a width that nobody sees."""
    return Console(markup=False, highlight=False, emoji=False, width=None if sys.stdout.isatty() else 200)


@contextmanager
def progress(doing: str, paths: Sequence[str]) -> Iterator[Callable[..., Report | None]]:
    """Yields a function that gives the `progress` argument for the next file, or files, to be read.

    One bar over all the files is drawn when they are large and stderr is a terminal; else it gives None.
    """
    with progress_bar(doing, _bytes_of(paths)) as report:
        finished = 0

        def report_for(*paths: str) -> Report | None:
            nonlocal finished
            before, finished = finished, finished + _bytes_of(paths)
            return None if report is None else lambda read: report(before + read)

        yield report_for


@contextmanager
def progress_bar(doing: str, total: int) -> Iterator[Report | None]:
    """Yields a `progress` argument that draws a bar up to `total` bytes, or None as above."""
    console = Console(stderr=True)
    if total < SHOW_PROGRESS_FROM or not console.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(doing, total=total)
        yield lambda read: bar.update(task, completed=read)


def _bytes_of(paths: Sequence[str]) -> int:
    return sum(os.path.getsize(path) for path in paths)


def size(count: float) -> str:
    """A number of bytes for people.

    >>> size(512), size(3_140), size(126_000_000)
    ('512 bytes', '3.1 kB', '126.0 MB')
    """
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} bytes" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def plural(count: int, noun: str) -> str:
    """
    >>> plural(1, "record"), plural(2_000, "record")
    ('1 record', '2,000 records')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"

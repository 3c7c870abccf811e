"""feedline serve: the reader service, which reads, decodes and maps for several programs on this host."""

from __future__ import annotations

import os
import sys
import time
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from feedline.cli.terminal import Json, plural, printable, say, show_json, size, table_console
from feedline.errors import UsageError
from feedline.graph.arguments import bytes_of
from feedline.serve.auto import socket_path
from feedline.serve.limits import Limits
from feedline.serve.server import run
from feedline.serve.status import ask_status

_EVERY = 1.0  # seconds from one picture to the next


def serve(
    socket: Annotated[
        str | None, typer.Option(help="Where to listen.", show_default='where distribute("unix:auto") looks')
    ] = None,
    max_open_files: Annotated[
        int | None, typer.Option(help="Data files that are open at the same time.", show_default="no limit")
    ] = None,
    memory_limit: Annotated[
        str | None, typer.Option(help="For blocks, in bytes or as 4GB.", show_default="256 MB a program")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Processes for your functions.", show_default="one for each core")
    ] = None,
    status: Annotated[bool, typer.Option("--status", help="Show what a running service does.")] = False,
    as_json: Json = False,
) -> None:
    """Read, decode and map for several programs on this host: .distribute("unix:PATH") connects them.

    Programs with the same pipeline share the work. Their functions run in processes of this service, with the
    rights of whoever started it; only programs of the same user may connect. The limits hold for all programs
    together. It serves until Ctrl-C or SIGTERM.
    """
    path = socket_path() if socket is None else os.path.abspath(socket)
    if status:
        _show_status(path, as_json)
        return
    limits = Limits(
        _at_least(1, "max_open_files", max_open_files),
        None if memory_limit is None else bytes_of("serve", "memory_limit", memory_limit),
        _at_least(0, "workers", workers),
    )
    run(path, limits, listening=lambda service: say(f"Listening on {service.path}. Ctrl-C ends it."))


def _at_least(least: int, name: str, value: int | None) -> int | None:
    if value is not None and value < least:
        raise UsageError(f"serve({name}={value}): {least} at least.")
    return value


def _show_status(path: str, as_json: bool) -> None:
    """One snapshot; on a terminal, a picture that changes."""
    snapshot = ask_status(f"unix:{path}")
    if as_json:
        show_json(snapshot)
        return
    console = table_console()
    if not sys.stdout.isatty():
        console.print(_picture(snapshot))
        return
    with Live(_picture(snapshot), console=console, auto_refresh=False) as live:
        while True:
            time.sleep(_EVERY)
            live.update(_picture(ask_status(f"unix:{path}")), refresh=True)


def _picture(snapshot: dict[str, Any]) -> Group:
    hosts = snapshot["hosts"]
    clients = [client for host in hosts for client in host["clients"]]
    summary = (
        f"{snapshot['socket']}: process {snapshot['pid']}, {plural(len(clients), 'client')}, "
        f"{plural(sum(len(host['pipelines']) for host in hosts), 'pipeline')}, "
        f"{plural(sum(host['workers'] for host in hosts), 'worker')}, "
        f"{plural(sum(host['open_files'] for host in hosts), 'open file')}, "
        f"{size(snapshot['memory'])}"
    )
    table = Table(box=box.SIMPLE, show_edge=False, pad_edge=False)
    for name in ("client", "pipeline", "host"):
        table.add_column(name, overflow="fold")
    for name in ("elements", "elements/s", "bytes/s"):
        table.add_column(name, justify="right")
    for host in hosts:
        for client in host["clients"]:
            table.add_row(
                str(client["pid"]),
                printable(client["pipeline"]),
                str(host["pid"]),
                f"{client['elements']:,}",
                f"{client['elements_per_second']:,.0f}",
                size(client["bytes_per_second"]),
            )
    jobs = _jobs([job for host in hosts for job in host["jobs"]])
    return Group(Text(printable(summary)), *([table] if clients else []), *([jobs] if jobs.row_count else []))


def _jobs(jobs: list[dict[str, Any]]) -> Table:
    """The passes that are divided among clients, a line for each client."""
    table = Table(box=box.SIMPLE, show_edge=False, pad_edge=False)
    for name in ("job", "epoch", "client", "connected"):
        table.add_column(name, overflow="fold")
    for name in ("elements read", "blocks", "unacknowledged"):
        table.add_column(name, justify="right")
    for job in jobs:
        for one in job["passes"]:
            for name, client in one["clients"].items():
                table.add_row(
                    printable(job["job"]),
                    ".".join(map(str, one["epoch"])),
                    printable(name),
                    "yes" if client["connected"] else "no",
                    f"{one['given']:,}" + (" (all)" if one["ended"] else ""),
                    f"{client['blocks']:,}",
                    f"{client['unacknowledged']:,}",
                )
    return table

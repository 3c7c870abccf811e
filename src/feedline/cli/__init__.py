"""The command line. One command per file; a new one is a file and its name in the list below.

Exit codes: 0 all is well, 1 there are findings, 2 the command cannot be meant, 130 Ctrl-C.
"""

import typer

from feedline.cli.cache import cache
from feedline.cli.convert import convert
from feedline.cli.count import count
from feedline.cli.demo import demo
from feedline.cli.head import head
from feedline.cli.index import index
from feedline.cli.inspect import inspect
from feedline.cli.merge import merge
from feedline.cli.repair import repair
from feedline.cli.reshard import reshard
from feedline.cli.serve import serve
from feedline.cli.terminal import Command, Commands
from feedline.cli.verify import verify

app = typer.Typer(
    cls=Commands,
    name="feedline",
    help="Look into TFRecord files, check, mend, join, divide, index and make them; caches; serve.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (inspect, head, count, verify, repair, merge, reshard, convert, index, serve, demo):
    app.command(cls=Command)(command)
app.add_typer(cache, name="cache")


def main() -> None:
    app()

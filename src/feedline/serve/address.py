"""Where a reader service listens: `unix:PATH`, or `unix:auto` for one that is started on demand."""

from __future__ import annotations

import os
from typing import Any

from feedline.errors import UsageError

AUTO = "unix:auto"


def check_address(step: str, address: Any) -> str:
    """The address, with an absolute path. UsageError when it is none."""
    if isinstance(address, str) and address == "ray":
        raise UsageError(f'{step}("ray"): not available yet. Give "unix:PATH" or "unix:auto".')
    if not isinstance(address, str) or not address.startswith("unix:") or address == "unix:":
        raise UsageError(
            f'{step}({address!r}): give "unix:PATH", the socket of `feedline serve --socket PATH`, or '
            '"unix:auto" to have one started.'
        )
    return address if address == AUTO else f"unix:{os.path.abspath(path_of(address))}"


def path_of(address: str) -> str:
    return address.removeprefix("unix:")

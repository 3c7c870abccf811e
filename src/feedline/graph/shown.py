"""Text for people."""

from __future__ import annotations


class Shown(str):
    """Text that a REPL or a notebook shows as `print` does."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

"""Text for people."""

from __future__ import annotations


class Shown(str):
    """Text that a REPL or a notebook shows as `print` does."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def size_text(count: float) -> str:
    """
    >>> size_text(999), size_text(1_500), size_text(12_345_678)
    ('999 B', '1.5 kB', '12.3 MB')
    """
    if count < 1000:
        return f"{count} B"
    for unit in ("kB", "MB", "GB"):
        count /= 1000
        if count < 1000:
            return f"{count:.1f} {unit}"
    return f"{count / 1000:,.1f} TB"

"""Feature values as text for people and as JSON for programs."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from typing import Any


def to_json(value: Any) -> Any:
    """Readable UTF-8 becomes a string, other bytes {"base64": ...}; NaN and infinities become strings.

    >>> to_json([b"cat", bytes([0, 255]), 1, 0.5, math.inf])
    ['cat', {'base64': 'AP8='}, 1, 0.5, 'Infinity']
    """
    match value:
        case dict():
            return {key: to_json(item) for key, item in value.items()}
        case list():
            return [to_json(item) for item in value]
        case bytes():
            text = _readable(value)
            return {"base64": base64.b64encode(value).decode()} if text is None else text
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def to_text(values: Sequence[Any], room: int = 48) -> str:
    """The values on one line: those that fit into about `room` characters, and how many there are.

    >>> to_text([7]), to_text([]), to_text([b"cat", b"dog"])
    ('7', 'no values', "'cat', 'dog'")
    >>> to_text(list(range(784)), room=12)
    '0, 1, 2, 3, … 784 values'
    >>> to_text([bytes(range(200, 250))], room=20)
    'c8 c9 ca cb cc cd … 50 bytes'
    """
    if not values:
        return "no values"
    shown: list[str] = []
    left = room
    for value in values:
        word = _word(value, room)
        left -= len(word) + 2
        if shown and left < 0:
            return f"{', '.join(shown)}, … {len(values):,} values"
        shown.append(word)
    return ", ".join(shown)


def hexdump(value: bytes, count: int = 16) -> str:
    """
    >>> hexdump(b"tea\\x00")
    '74 65 61 00'
    """
    rest = f" … {len(value):,} bytes" if len(value) > count else ""
    return value[:count].hex(" ") + rest


def _word(value: Any, room: int) -> str:
    if isinstance(value, list):
        return f"[{to_text(value, room)}]"
    if not isinstance(value, bytes):
        return str(value)
    text = _readable(value)
    if text is None:
        return hexdump(value, max(room // 3, 1))
    return repr(text) if len(text) <= room else f"{text[:room]!r}… {len(value):,} bytes"


def _readable(value: bytes) -> str | None:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return None
    return text if all(sign.isprintable() or sign in "\n\r\t" for sign in text) else None

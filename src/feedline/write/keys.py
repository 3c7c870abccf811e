"""Keys that producers give with their records, as text and back."""

from __future__ import annotations

import json
import operator
from typing import Any

from feedline.errors import UsageError


def checked_key(key: Any) -> Any:
    """The key, if it comes back the same: text, numbers, and tuples of them.

    >>> checked_key(("a.csv", 7))
    ('a.csv', 7)
    """
    if key is None or type(key) in (int, str, float, bool):
        return key
    if isinstance(key, tuple):
        return tuple(map(checked_key, key))
    try:
        return operator.index(key)  # of NumPy's numbers too
    except TypeError:
        raise UsageError(
            f"key={key!r} is a {type(key).__name__}; a key is text, a number, or a tuple of them, so that it "
            "can be kept for a later run."
        ) from None


def key_text(key: Any) -> str:
    """
    >>> key_of(key_text(("a.csv", 7)))
    ('a.csv', 7)
    """
    return json.dumps(key)


def key_of(text: str) -> Any:
    return _tuples(json.loads(text))


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value

"""What Keras users call by its name: `from feedline.keras import ResumeCallback`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    ResumeCallback: Any


def __getattr__(name: str) -> Any:
    if name == "ResumeCallback":  # made when asked for: its base is Keras's
        from feedline.adapt.resume import callback_class

        return callback_class()
    raise AttributeError(f"module 'feedline.keras' has no attribute {name!r}")

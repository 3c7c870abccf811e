"""A client's pipeline in a host: unpickled once, opened at any state."""

from __future__ import annotations

import json
import sys
from threading import Lock

from feedline.errors import ServiceError
from feedline.graph import Context, Node, Stream
from feedline.serve.limits import Kept


class Pipeline:
    def __init__(self, outline: str, opening: bytes, kept: Kept) -> None:
        self.outline = outline
        self._opening = opening
        self._kept = kept
        self._loaded: tuple[Node, Context] | None = None
        self._lock = Lock()

    def open(self, state: str) -> Stream:
        """The stream at this state, which is JSON. What goes wrong is for the client to know."""
        node, context = self._load()
        return self._context(context, node).open(node, json.loads(state))

    def _context(self, context: Context, node: Node) -> Context:
        return self._kept.context(node, context)

    def _load(self) -> tuple[Node, Context]:
        from feedline.run.pickling import loads

        with self._lock:
            if self._loaded is None:
                try:
                    self._loaded = loads(self._opening)
                except ImportError as error:
                    raise _not_importable(error) from error
                self._opening = b""
            return self._loaded


def _not_importable(error: ImportError) -> ServiceError:
    module = f"the module {error.name!r}" if error.name else "a module"
    return ServiceError(
        f"distribute: the reader service cannot import {module}, which the pipeline needs: {error}\n"
        "  It looks where the client does: " + ", ".join(sys.path) + "\n"
        "  Install the module, or put it in one of these directories."
    )

"""feedline: cache(directory)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchmarks.cache_open import Subject

ROWS: dict[str, list[dict[str, object]]] = {"feedline": [{}]}


def run(subject: Subject) -> NDArray[np.uint8]:
    with iter(subject.dataset()) as rows:
        return next(rows)  # type: ignore[no-any-return]

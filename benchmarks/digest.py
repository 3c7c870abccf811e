"""What was delivered, as one number: every byte counts, the order of the rows does not.

Each row is hashed over all of its features (so a label that moved to another row's picture shows), and
the hashes are added up modulo 2**64. Adding makes digests of files add up to the digest of the whole,
and lets a rival that reads files in any order be compared with one that keeps it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

_ODD = np.uint64(0x9E3779B97F4A7C15)


def digest(batch: Mapping[str, NDArray]) -> int:
    """The digest of a batch (columns with rows along the first axis).

    >>> a = {"x": np.arange(6).reshape(3, 2), "label": np.arange(3)}
    >>> b = {"label": a["label"][::-1], "x": a["x"][::-1]}
    >>> digest(a) == digest(b), digest(a) == digest(a | {"label": b["label"]})
    (True, False)
    """
    rows = len(next(iter(batch.values())))
    hashes = np.zeros(rows, np.uint64)
    for key in sorted(batch):
        words = _words(batch[key], rows)
        hashes = (hashes ^ (hashes >> np.uint64(29))) * _ODD + words @ _weights(words.shape[1])
    hashes = (hashes ^ (hashes >> np.uint64(32))) * _ODD
    return int(hashes.sum(dtype=np.uint64))


def _words(column: NDArray, rows: int) -> NDArray[np.uint64]:
    flat = np.ascontiguousarray(column).reshape(rows, -1)
    width = flat.shape[1] * flat.itemsize
    if width % 8 == 0:
        return flat.view(np.uint64)
    return flat.view(f"u{flat.itemsize}").astype(np.uint64)


def _weights(count: int) -> NDArray[np.uint64]:
    return (np.arange(1, count + 1, dtype=np.uint64) * _ODD) | np.uint64(1)

"""How fast do TFRecord files become parsed batches of 256 as NumPy arrays?

A rival defines `read(workload, **settings)`: an iterator of batches, each a dict of arrays with 256
rows, for one pass over the files. Bytes features arrive as uint8 arrays. A floor, which delivers
nothing, returns the number of bytes it went over instead.
"""

from __future__ import annotations

from collections.abc import Iterator

from numpy.typing import NDArray

from benchmarks.digest import digest
from benchmarks.workloads import BATCH, Workload

FUNCTION = "read"
WORKLOADS = ("img", "dense", "tab")
FILES = 16
BASES = ("tf_data", "limit", "feedline")

Answer = Iterator[dict[str, NDArray]] | int


def prepare(workload: Workload) -> Workload:
    return workload


def check(answer: Answer, workload: Workload) -> None:
    """The untimed pass: every byte of every record must be right."""
    if isinstance(answer, int):
        return _expect("bytes", answer, workload.bytes)
    records = total = 0
    for batch in answer:
        for key, feature in workload.features.items():
            _expect(f"shape of {key}", batch[key].shape, (BATCH, *feature.shape))
        records += BATCH
        total += digest({key: batch[key] for key in workload.features})
    _expect("records", records, workload.records)
    _expect("digest", total % 2**64, workload.digest)


def consume(answer: Answer, workload: Workload) -> None:
    """The timed pass: look at the labels and at a few values of the widest feature, as cheaply as may be."""
    if isinstance(answer, int):
        return _expect("bytes", answer, workload.bytes)
    first = next(iter(workload.features))
    records = touched = 0
    for batch in answer:
        records += len(batch["label"])
        touched += int(batch["label"].sum()) + float(batch[first].reshape(BATCH, -1)[:, ::512].sum())
    _expect("records", records, workload.records)


def _expect(what: str, got: object, wanted: object) -> None:
    if got != wanted:
        raise AssertionError(f"{what}: delivered {got}, wanted {wanted}")

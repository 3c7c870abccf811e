"""How fast do 10,000 TFRecord files of 10 records become parsed batches?

A rival defines `read(workload, **settings)`: an iterator of batches of 250, each a dict of arrays, for one
pass over the files, which it lists itself. The checked pass also tells how far the memory of the process
grew, and how many files it had open at most.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.digest import digest
from benchmarks.workloads import SEED, Columns, Feature, Workload, data_directory, examples, framed

FUNCTION = "read"
WORKLOADS = ("small",)
FILES = 10_000
BASES = ("tf_data", "feedline_list")
RECORDS = 10  # of a file
BATCH = 250
FEATURES = {"x": Feature("float", (16,)), "label": Feature("int64")}

_FEWEST = BATCH // RECORDS  # files, for one whole batch


def load(name: str, files: int) -> Workload:
    files = max(files, _FEWEST)
    folder = data_directory() / f"many-files-{SEED}" / str(files)
    content = _content(files)
    if not folder.exists():
        _make(folder, content)
    paths = tuple(str(folder / _name(number)) for number in range(files))
    size = sum(map(os.path.getsize, paths))
    return Workload(name, paths, files * RECORDS, size, digest(content))


def pattern(workload: Workload) -> str:
    return os.path.join(os.path.dirname(workload.files[0]), "*.tfrecord")


def _content(files: int) -> Columns:
    rng = np.random.default_rng([SEED, files])
    rows = files * RECORDS
    return {"x": rng.standard_normal((rows, 16), dtype=np.float32), "label": rng.integers(0, 10, rows)}


def _name(number: int) -> str:
    return f"{number:06}.tfrecord"


def _make(folder: Path, content: Columns) -> None:
    # Renamed into place last: a run that was stopped leaves no folder that looks whole.
    draft = folder.with_suffix(f".{os.getpid()}")
    draft.mkdir(parents=True)
    records = [framed(record) for record in examples(content, FEATURES)]
    for number in range(len(records) // RECORDS):
        begin = number * RECORDS
        (draft / _name(number)).write_bytes(b"".join(records[begin : begin + RECORDS]))
    draft.rename(folder)


def prepare(workload: Workload) -> Workload:
    return workload


def check(answer: Iterator[dict[str, NDArray]], workload: Workload) -> dict[str, float]:
    """The untimed pass: every byte of every record must be right."""
    with _Watch() as watch:
        records = total = 0
        for batch in answer:
            records += len(batch["label"])
            total += digest({key: np.asarray(batch[key]) for key in FEATURES})
    if (records, total % 2**64) != (workload.records, workload.digest):
        raise AssertionError(f"{records} of {workload.records} records came, or their content is wrong")
    return {"RSS growth, MB": watch.grown / 2**20, "most files open": watch.most_open}


def consume(answer: Iterator[dict[str, NDArray]], workload: Workload) -> None:
    records = touched = 0
    for batch in answer:
        records += len(batch["label"])
        touched += int(batch["label"].sum()) + float(batch["x"][:, 0].sum())
    if records != workload.records:
        raise AssertionError(f"{records} of {workload.records} records came")


class _Watch:
    """Looks at this process every few milliseconds while a `with` block runs."""

    grown = 0
    most_open = 0

    def __enter__(self) -> _Watch:
        self._over = threading.Event()
        self._before = _resident(), _open_files()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def _look(self) -> None:
        while not self._over.wait(0.002):
            self.grown = max(self.grown, _resident() - self._before[0])
            self.most_open = max(self.most_open, _open_files() - self._before[1])

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _open_files() -> int:
    return len(os.listdir("/proc/self/fd"))

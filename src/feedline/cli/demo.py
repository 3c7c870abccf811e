"""feedline demo: what feedline does, on a small dataset of its own, with the numbers of this machine."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from feedline import _native, records
from feedline.cli.terminal import Json, plural, show, show_json, size
from feedline.cli.verify import describe
from feedline.records import example
from feedline.records.features import FixedLenFeature

FILES, RECORDS, PIXELS, BATCH = 4, 5_000, 784, 256
FEATURES = {
    "pixels": FixedLenFeature([PIXELS], "float32"),
    "label": FixedLenFeature([], "int64"),
}


def demo(as_json: Json = False) -> None:
    """Write a small dataset, read it, verify it, then damage a copy of a file and repair it."""
    with tempfile.TemporaryDirectory(prefix="feedline-demo-") as directory:
        facts = _run(Path(directory), quiet=as_json)
    if as_json:
        show_json(facts)


def _run(directory: Path, quiet: bool) -> dict[str, Any]:
    tell = (lambda line: None) if quiet else show
    total = FILES * RECORDS
    facts: dict[str, Any] = {"records": total}

    @contextmanager
    def timed(name: str, text: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        seconds = time.perf_counter() - began
        facts[f"{name}_per_second"] = rate = round(total / seconds)
        tell(f"{text:<62} {seconds:5.2f} s  {rate:>11,} records/s")

    random = np.random.default_rng(seed=0)
    columns = {
        "pixels": random.random((RECORDS, PIXELS), dtype=np.float32),
        "label": random.integers(0, 10, RECORDS),
    }
    with timed("write", f"wrote {total:,} Examples of {PIXELS} floats and a label, in {FILES} files"):
        paths = [_write(directory / f"demo-{number}.tfrecord", columns) for number in range(FILES)]
    facts["bytes"] = sum(map(os.path.getsize, paths))

    with timed("read", f"read {size(facts['bytes'])} into batches of {BATCH}, all checksums checked"):
        for block in records.read_blocks(paths, FEATURES, rows=BATCH):
            last = block.as_batch()
    tell(
        "  the last batch: "
        + ", ".join(f"{key} {column.dtype} {column.shape}" for key, column in last.items())
    )

    with timed("verify", "verified the files"):
        findings = [finding for path in paths for finding in records.verify(path).findings]
    tell(f"  {plural(len(findings), 'finding')}")

    damaged = str(directory / "damaged.tfrecord")
    shutil.copy(paths[0], damaged)
    _damage(damaged)
    tell("damaged a copy of one file: a flipped bit in the middle, the last 100 bytes cut off")
    mended = records.repair(damaged, str(directory / "mended.tfrecord"))
    for finding in mended.findings:
        tell(f"  {describe(finding).replace(f'{directory}{os.sep}', '')}")
    tell(f"repaired it: {mended.kept:,} of {plural(RECORDS, 'record')} kept")
    facts |= {"findings": len(findings), "repair": {"findings": len(mended.findings), "kept": mended.kept}}
    return facts


def _write(path: Path, columns: dict[str, Any]) -> str:
    with path.open("wb") as file:
        file.writelines(map(_native.frame, example.encode_batch(columns)))
    return str(path)


def _damage(path: str) -> None:
    content = bytearray(Path(path).read_bytes())
    content[len(content) // 2 + 100] ^= 1  # within a payload
    Path(path).write_bytes(content[:-100])

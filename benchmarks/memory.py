"""How much memory do a large file and a long pipeline take? Not a race: feedline alone, growth in MB.

    python -m benchmarks.harness memory [--quick]

Each way of reading runs in a fresh process over files of two sizes, plain and gzip, and so does each pipeline
over two numbers of elements. Growth is the peak of resident memory while reading, less what was resident
before. If memory is bounded by a few chunks and blocks, neither the size of the file nor the number of
elements shows in the tables.
"""

from __future__ import annotations

import subprocess
import sys
import zlib
from collections import deque
from pathlib import Path

from benchmarks import report, workloads

HERE = Path(__file__).resolve().parent
SIZES_MB = (200, 2000)
WAYS = ("read_blocks, 1 thread", "read_blocks, 2 threads", "read", "verify")
ELEMENTS = (100_000, 10_000_000)
PIPELINES = ("range().filter().batch(256)", "range().shuffle(8192).batch(256)")


def main(quick: bool = False) -> None:
    """Measure every way on every file; print the table, and keep it unless `quick`."""
    growth: dict[str, dict[str, float]] = {}
    for size in SIZES_MB[:1] if quick else SIZES_MB:
        for kind in ("plain", "gzip"):
            path = large_file(size, kind)
            growth[f"{size:,} MB, {kind}"] = {way: round(_in_child(way, str(path)), 1) for way in WAYS}
    pipelines = {
        f"{elements:,}": {name: round(_in_child(name, str(elements)), 1) for name in PIPELINES}
        for elements in (ELEMENTS[:1] if quick else ELEMENTS)
    }
    lines = [
        "# memory",
        "",
        "Growth of resident memory, in MB, while feedline reads one file of 3,072-byte pictures to its end.",
        "",
        *_table("file", growth),
        "",
        "The same while a pipeline goes through so many elements.",
        "",
        *_table("elements", pipelines),
    ]
    text = "\n".join(lines) + "\n"
    print(text)
    if not quick:
        report.write(HERE / "results" / "memory", text, {"growth_mb": growth | pipelines})


def _table(what: str, rows: dict[str, dict[str, float]]) -> list[str]:
    ways = list(next(iter(rows.values())))
    return [
        f"| {what} |{''.join(f' {way} |' for way in ways)}",
        f"|---|{'---|' * len(ways)}",
        *(f"| {name} |{''.join(f' {row[way]:.1f} |' for way in ways)}" for name, row in rows.items()),
    ]


def large_file(size_mb: int, kind: str) -> Path:
    """The first file of img over and over, in one file; as gzip, in one member."""
    piece = Path(workloads.load("img", 1).files[0]).read_bytes()
    times = round(size_mb * 1e6 / len(piece))
    path = workloads.data_directory() / f"img-{size_mb}-mb-{kind}.tfrecord"
    if not path.exists():
        draft = path.with_suffix(".draft")
        with draft.open("wb") as file:
            file.writelines([piece] * times if kind == "plain" else _gzip_of(piece, times))
        draft.rename(path)
    return path


def _gzip_of(piece: bytes, times: int) -> list[bytes]:
    # After a full flush deflate starts afresh, so one compressed piece may be repeated within a member.
    deflate = zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS)
    packed = deflate.compress(piece) + deflate.flush(zlib.Z_FULL_FLUSH)
    crc = 0
    for _ in range(times):
        crc = zlib.crc32(piece, crc)
    head = b"\x1f\x8b\x08" + bytes(6) + b"\xff"
    tail = crc.to_bytes(4, "little") + (times * len(piece) % 2**32).to_bytes(4, "little")
    return [head, *[packed] * times, deflate.flush(), tail]


def _in_child(way: str, what: str) -> float:
    command = [sys.executable, "-m", "benchmarks.memory", way, what]
    done = subprocess.run(command, cwd=HERE.parent, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"benchmarks.memory {way} failed:\n{done.stderr[-4000:]}")
    return float(done.stdout)


def measure(way: str, what: str) -> float:
    """Read a file, or go through so many elements, in this process; MB that resident memory grew by."""
    import numpy as np

    import feedline as fl

    features = {"image": fl.RawFeature((3072,), np.uint8), "label": fl.FixedLenFeature((), np.int64)}
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of the imports
    before = _status("VmRSS")
    if way == "verify":
        fl.records.verify(what)
    elif way == "read":
        deque(fl.records.read(what), maxlen=0)
    elif way == PIPELINES[0]:
        deque(fl.Dataset.range(int(what)).filter(lambda x: x % 2 == 0).batch(workloads.BATCH), maxlen=0)
    elif way == PIPELINES[1]:
        deque(fl.Dataset.range(int(what)).shuffle(8192).batch(workloads.BATCH), maxlen=0)
    else:
        threads = 2 if "2 threads" in way else 1
        blocks = fl.records.read_blocks([what], features, rows=workloads.BATCH, threads=threads)
        deque((block.as_batch()["label"][0] for block in blocks), maxlen=0)
    return _status("VmHWM") - before


def _status(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:")) * 1024 / 1e6


if __name__ == "__main__":
    print(measure(*sys.argv[1:]))

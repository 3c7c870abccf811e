"""BlockSource: blocks of any size have the same rows."""

from __future__ import annotations

import gzip
import warnings

import pytest

from feedline.records.blocks import BlockSource
from tests.records.corrupt import flip, frame, run_python

# Records of all sizes: shorter than the smallest chunk, about as long, and longer than the largest.
PAYLOADS = [bytes([number % 251]) * (number * 37 % 9000) for number in range(400)] + [
    b"x" * 600_000,
    b"",
    b"y",
]


def rows_of(path, **options):
    settings = {"rows": 64, "threads": 1, "compression": "auto", "verify": True, "skip": False, **options}
    source = BlockSource([str(path)], None, **settings)
    found = []
    try:
        while (block := source.next()) is not None:
            found += list(block)
    finally:
        source.close()
    return found


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("block_bytes", [1, 5000, 40_000, (64 << 10) - 1, 64 << 10])
@pytest.mark.parametrize("kind", ["plain", "gzip", "damaged"])
def test_small_blocks_are_read_in_small_chunks_and_have_the_same_rows(tmp_path, kind, block_bytes, shared):
    framed = [frame(payload) for payload in PAYLOADS]
    wanted = PAYLOADS
    if kind == "damaged":
        framed[200] = flip(framed[200], 8 * 20)
        wanted = PAYLOADS[:200] + PAYLOADS[201:]
    data = b"".join(framed)
    path = tmp_path / "file"
    path.write_bytes(gzip.compress(data, 1) if kind == "gzip" else data)
    with warnings.catch_warnings(action="ignore"):
        found = rows_of(path, block_bytes=block_bytes, shared=shared, skip=kind == "damaged")
    assert found == wanted


_MANY = """
import sys
from feedline.records.blocks import BlockSource

def resident():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmRSS"))

settings = {"rows": 64, "threads": 1, "compression": "none", "verify": True, "skip": False, "as_rows": True}
readers = []
before = resident()
for _ in range(500):
    readers.append(BlockSource([sys.argv[1]], None, **settings, block_bytes=4096, shared=False))
    readers[-1].next()
print(resident() - before)
"""


def test_many_readers_of_small_blocks_hold_little(tmp_path):
    """500 chunks of 256 KB would be 125 MB."""
    path = tmp_path / "file"
    path.write_bytes(b"".join(frame(bytes([number % 251]) * 1000) for number in range(1000)))
    assert int(run_python(_MANY, str(path))) < 60 << 20

"""Memory: a file of any size is read with a few chunks. Each reader runs alone, in a process of its own."""

import gzip
import zlib

import pytest

from tests.records.corrupt import FOOTER, example, flip, frame, header, run_python, strings

SIZE = 300 << 20
ROOM = 40 << 20
RECORD = frame(example(a=strings(bytes(100_000))))  # nearly all zeros
RECORDS = SIZE // len(RECORD)

SCRIPT = """
import sys
from feedline.records import read, read_blocks, repair, verify
from feedline.records.features import RawFeature

small, large, out = sys.argv[1:]
features = {"a": RawFeature([100_000], "uint8")}

def use(path):
    return USE

def peak():  # getrusage would count that of the process it was started from, too
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))

use(small)
before = peak()
print(use(large), peak() - before)
"""

USES = {
    "read": "sum(1 for _ in read(path))",
    "read_blocks": "sum(block.rows for block in read_blocks(path, features, rows=16))",
    "two threads": "sum(block.rows for block in read_blocks(path, features, rows=16, threads=2))",
    "verify": "verify(path).records",
    "repair": "repair(path, out if path == large else out + '.small').kept",
}
SKIPPING = {
    "verify": USES["verify"],
    "read": "sum(1 for _ in read(path, on_corrupt='skip'))",
    "read_blocks": "sum(block.rows for block in read_blocks(path, features, on_corrupt='skip'))",
    "two threads": "sum(block.rows for block in read_blocks(path, features, threads=2, on_corrupt='skip'))",
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """One record, and 300 MB of the same: as holes between what is not zero, and compressed."""
    folder = tmp_path_factory.mktemp("memory")
    (folder / "small").write_bytes(RECORD)
    zeros = RECORD.index(bytes(90_000))
    with (folder / "plain").open("wb") as file:
        for number in range(RECORDS):
            file.seek(number * len(RECORD))
            file.write(RECORD[:zeros])
            file.seek((number + 1) * len(RECORD) - FOOTER)
            file.write(RECORD[-FOOTER:])
    packer = zlib.compressobj(1, wbits=31)
    with (folder / "gzip").open("wb") as file:
        for _ in range(RECORDS):
            file.write(packer.compress(RECORD))
        file.write(packer.flush())
    return folder


def grown(use, small, large, out):
    """What the use returns for the large file, and the bytes of memory that it took beyond the small one."""
    result, growth = run_python(SCRIPT.replace("USE", use), small, large, out).split()
    return int(result), int(growth)


@pytest.mark.parametrize(
    ("kind", "use"),
    # What repair writes is the same either way: 300 MB on the disk, once.
    [(kind, use) for kind in ("plain", "gzip") for use in USES if (kind, use) != ("gzip", "repair")],
)
def test_300_megabytes_are_read_with_a_few_chunks_of_memory(files, tmp_path, kind, use):
    records, growth = grown(USES[use], files / "small", files / kind, tmp_path / "out")
    (tmp_path / "out").unlink(missing_ok=True)
    assert records == RECORDS
    assert growth < ROOM


@pytest.mark.parametrize("use", ["read", "read_blocks", "two threads"])
def test_a_file_of_nothing_but_damaged_records_is_skipped_in_little_memory(files, tmp_path, use):
    path = tmp_path / "bad"
    path.write_bytes(flip(frame(b"abcd"), 8 * 13) * 500_000)
    records, growth = grown(SKIPPING[use], files / "small", path, tmp_path / "out")
    assert records == 0
    assert growth < ROOM


@pytest.mark.parametrize("use", SKIPPING)
def test_a_length_that_lies_takes_no_memory_where_the_size_of_the_file_is_unknown(files, tmp_path, use):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(RECORD + header(2**31 - 100) + bytes(100)))
    records, growth = grown(SKIPPING[use], files / "small", path, tmp_path / "out")
    assert records == 1
    assert growth < ROOM

"""verify finds every damaged place; repair keeps every good record."""

import gzip
import os
import pickle
import subprocess
import zlib

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from feedline.errors import UsageError, WriteError
from feedline.records import read, repair, verify
from tests.records.corrupt import flip, frame, frames, header, run_python

PAYLOADS = [b"first", b"", b"the third"]
DATA = frames(PAYLOADS)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "a.tfrecord"
    path.write_bytes(DATA)
    return path


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zlib.compress])
def test_a_sound_file_has_no_findings_and_repairs_to_a_plain_copy(path, pack, tmp_path):
    path.write_bytes(pack(DATA))
    found = verify(path)
    assert (found.ok, found.path, found.records, found.bytes) == (True, str(path), 3, 14)
    done = repair(path, tmp_path / "out")
    assert (done.path, done.out, done.kept, done.findings) == (str(path), str(tmp_path / "out"), 3, [])
    assert (tmp_path / "out").read_bytes() == DATA


def test_every_finding_has_its_place_and_they_come_in_the_order_of_the_file(path):
    good, bad_payload = frame(b"good"), flip(frame(b"bad!"), 8 * 13)
    path.write_bytes(bad_payload + good + b"junk" * 10 + good + bad_payload + good + good[:-1])
    found = verify(path)
    assert not found.ok
    assert found.records == 3
    assert [(each.record, each.offset) for each in found.findings] == [(0, 0), (2, 40), (4, 100), (6, 140)]
    assert all(each.path == str(path) for each in found.findings)
    payload, stretch, _, tail = (each.what for each in found.findings)
    assert payload.startswith("payload checksum")
    assert stretch.endswith("the next sound header is at byte 80")
    assert tail.endswith("no sound header follows")


def test_a_flipped_bit_anywhere_is_one_finding_and_costs_one_record(path, tmp_path):
    starts = [0, 21, 37]
    for bit in range(8 * len(DATA)):
        path.write_bytes(flip(DATA, bit))
        hit = max(number for number, start in enumerate(starts) if start <= bit // 8)
        found = verify(path)
        assert found.records == 2
        assert [(each.record, each.offset) for each in found.findings] == [(hit, starts[hit])]
        out = tmp_path / f"{bit}"
        assert repair(path, out).kept == 2
        assert list(read(out)) == PAYLOADS[:hit] + PAYLOADS[hit + 1 :]


@pytest.mark.parametrize("data", [b"", b"\0", b"\0" * 1000, b"\xeejunk" * 100_000, header(2**63)])
def test_a_file_without_a_record_repairs_to_an_empty_one(path, tmp_path, data):
    path.write_bytes(data)
    assert len(verify(path).findings) == (data != b"")
    assert repair(path, tmp_path / "out").kept == 0
    assert (tmp_path / "out").read_bytes() == b""


@pytest.mark.parametrize("size", [1, 262_130, 262_143, 262_144, 262_145, 524_280])
def test_a_damaged_stretch_may_end_anywhere_in_a_chunk(path, tmp_path, size):
    path.write_bytes(frame(b"before") + b"\xee" * size + frame(b"after") * 2)
    assert repair(path, tmp_path / "out").kept == 3
    assert list(read(tmp_path / "out")) == [b"before", b"after", b"after"]


@pytest.mark.parametrize("size", [262_100, 262_144, 600_000])
def test_a_torn_record_of_any_size_does_not_cost_those_that_follow(path, tmp_path, size):
    path.write_bytes(frame(b"before") + frame(bytes(size))[: size // 2] + frame(b"after") * 50_000)
    assert repair(path, tmp_path / "out").kept == 50_001


def test_a_truncated_gzip_file_is_a_finding_and_its_whole_records_are_kept(path, tmp_path):
    payloads = [os.urandom(3000) for _ in range(50)]
    packed = gzip.compress(frames(payloads))
    path.write_bytes(packed[: len(packed) // 2])
    found = verify(path)
    assert 20 <= found.records < 30
    assert any("the gzip stream ends early" in each.what for each in found.findings)
    assert repair(path, tmp_path / "out").kept == found.records
    assert list(read(tmp_path / "out")) == payloads[: found.records]


# What is written instead of a record; those that come after junk are still whole.
SPOILED = {
    "a flipped bit": lambda record, draw: flip(record, draw(st.integers(0, 8 * len(record) - 1))),
    "a torn end": lambda record, draw: record[: draw(st.integers(0, len(record) - 1))],
    # Not only a part of the header: behind the torn end of another, the rest could make a whole record.
    "a lost start": lambda record, draw: record[draw(st.integers(13, len(record))) :],
}
WHOLE = {
    "untouched": lambda record, draw: record,
    "junk before": lambda record, draw: draw(st.binary(min_size=1, max_size=40)) + record,
    "zeros before": lambda record, draw: bytes(draw(st.integers(1, 40))) + record,
}


@st.composite
def damaged_files(draw):
    """(payloads that are whole, bytes of the file)."""
    good, data = [], b""
    for number, way in enumerate(
        draw(st.lists(st.sampled_from([*SPOILED, *WHOLE, "untouched"]), max_size=8))
    ):
        # Each payload is another one, so that a record cannot stand for its neighbour.
        payload = bytes([number]) + draw(st.binary(max_size=40))
        data += (SPOILED | WHOLE)[way](frame(payload), draw)
        if way in WHOLE:
            good.append(payload)
    return good, data


TORN = frame(b"t" * 100)[:50]  # 66 bytes are missing
FILL = b"f" * (66 - 16)
NUMBER = (3).to_bytes(8, "little")


@given(damaged_files(), st.booleans())
@settings(max_examples=200)
@example(([b"a" * 10, b"b"], TORN + frames([b"a" * 10, b"b"])), False)
# The torn record seems to end just where a later one begins, or where the file ends.
@example(([FILL, b"b"], TORN + frames([FILL, b"b"])), False)
@example(([FILL], TORN + frame(FILL)), True)
# Or where the payload of a later one begins, which with its footer looks like a header.
@example(([b"a", NUMBER], frame(b"a") + frame(b"x" * 10)[:14] + frame(NUMBER)), False)
@example(([NUMBER, b"abc", b"d"], frame(b"x" * 10)[:14] + frames([NUMBER, b"abc", b"d"])), False)
@example(([b"a", NUMBER], frame(b"x" * 27)[:14] + frames([b"a", NUMBER])), True)
# And inside, there is more damage.
@example(([b"a", FILL[27:]], TORN + frame(b"a") + b"\xee" * 10 + frame(FILL[27:])), False)
def test_repair_keeps_every_good_record_and_no_other(tmp_path_factory, case, compress):
    good, data = case
    compression = "GZIP" if compress else None
    folder = tmp_path_factory.mktemp("repair")
    (folder / "in").write_bytes(gzip.compress(data) if compress else data)
    done = repair(folder / "in", folder / "out", compression=compression)
    assert list(read(folder / "out", compression=None)) == good
    assert done.kept == len(good)
    assert bool(done.findings) == (data != frames(good))
    found = verify(folder / "in", compression=compression)
    assert (found.records, found.findings) == (done.kept, done.findings)


@pytest.mark.parametrize("tail", [b"", b"junk" * 10])
def test_headers_that_all_claim_the_rest_of_the_file_do_not_take_for_ever(path, tmp_path, tail):
    count = 100_000
    claims = (header(12 * (count - number) - 12) for number in range(count))
    path.write_bytes(b"".join(claims) + bytes(4) + tail + frame(b"good"))
    assert not verify(path).ok
    repair(path, tmp_path / "out")
    assert list(read(tmp_path / "out")) == [b"good"]


def test_skip_reads_what_repair_keeps(path):
    path.write_bytes(TORN + frames([FILL, b"b"]))
    with pytest.warns(RuntimeWarning, match="^1 damaged"):
        assert list(read(path, on_corrupt="skip")) == [FILL, b"b"]


def test_progress_rises_to_the_size_of_the_file(path, tmp_path):
    path.write_bytes(frame(bytes(1 << 20)) * 30)
    for use in (verify, lambda *args, **kw: repair(*args, tmp_path / "out", **kw)):
        seen = []
        use(path, progress=seen.append)
        assert seen == sorted(seen)
        assert len(seen) > 2
        assert seen[-1] == path.stat().st_size


def test_repair_refuses_to_overwrite(path, tmp_path):
    out = tmp_path / "out"
    out.write_bytes(b"precious")
    for taken in (out, path):
        with pytest.raises(UsageError, match="never overwrites"):
            repair(path, taken)
    assert out.read_bytes() == b"precious"
    assert path.read_bytes() == DATA


def test_repair_into_a_directory_that_cannot_be_written_leaves_nothing_behind(path):
    for out in (path.parent / "missing" / "out", "/proc/self/fd/out"):
        with pytest.raises(WriteError, match=str(out)) as caught:
            repair(path, out)
        copy = pickle.loads(pickle.dumps(caught.value))
        assert (copy.errno, str(copy)) == (caught.value.errno, str(caught.value))
    assert list(path.parent.iterdir()) == [path]


def test_repair_of_a_missing_file_leaves_nothing_behind(tmp_path):
    with pytest.raises(FileNotFoundError):
        repair(tmp_path / "no", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_repair_that_is_interrupted_leaves_nothing_behind(path):
    def interrupt(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        repair(path, path.parent / "out", progress=interrupt)
    assert list(path.parent.iterdir()) == [path]


def test_repair_beyond_the_allowed_size_of_a_file_leaves_nothing_behind(path):
    path.write_bytes(frame(b"x" * 100_000) * 30)
    script = """
import os, resource, sys
from feedline.errors import WriteError
from feedline.records import repair
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
try:
    repair(sys.argv[1], sys.argv[1] + ".out")
except WriteError as error:
    print(error)
print(os.listdir(os.path.dirname(sys.argv[1])))
"""
    said, listing = run_python(script, path).splitlines()
    assert "File too large" in said
    assert f"{path}.out" in said
    assert listing == "['a.tfrecord']"


@pytest.fixture
def small_disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk]
    mounted = subprocess.run(mount, capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_repair_on_a_full_disk_leaves_nothing_behind(path, small_disk):
    path.write_bytes(frame(b"x" * 100_000) * 30)
    with pytest.raises(WriteError, match="No space left on device") as caught:
        repair(path, small_disk / "out")
    assert str(small_disk / "out") in str(caught.value)
    assert list(small_disk.iterdir()) == []


def test_what_repair_writes_is_not_seen_before_it_is_complete(path):
    def look(_):
        seen.append([entry.name for entry in path.parent.iterdir() if not entry.name.startswith(".")])

    seen = []
    repair(path, path.parent / "out", progress=look)
    assert seen
    assert all(names == ["a.tfrecord"] for names in seen)
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["a.tfrecord", "out"]

"""read: records as bytes, and what it says when the bytes are damaged."""

import contextlib
import errno
import gzip
import os
import random
import struct
import subprocess
import sys
import warnings
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedline.errors import CorruptRecord, NotTFRecord, UsageError
from feedline.records import read
from tests.records.corrupt import check_located, flip, frame, frames, header, run_python

PAYLOADS = [b"first", b"", b"the third"]
DATA = frames(PAYLOADS)
STARTS = [0, 21, 37, 62]  # of each record, and the end


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.tfrecord"


def read_until_error(path, **options):
    """The records before the error, and the error."""
    found = []
    with pytest.raises(CorruptRecord) as caught:
        found.extend(read(path, **options))
    return found, caught.value


@given(
    st.lists(st.binary(max_size=100) | st.just(b"x" * 300_000), max_size=10),
    st.sampled_from([bytes, gzip.compress, zlib.compress]),
    st.booleans(),
)
def test_what_was_framed_is_read_again(tmp_path_factory, payloads, pack, verify):
    path = tmp_path_factory.mktemp("read") / "a"
    path.write_bytes(pack(frames(payloads)))
    assert list(read(path, verify=verify)) == payloads


@pytest.mark.parametrize("size", [0, 1, 262_127, 262_128, 262_129, 524_288, 3_000_000])
def test_records_around_the_size_of_a_chunk_come_whole(path, size):
    payload = random.Random(size).randbytes(size)
    path.write_bytes(frames([b"before", payload, b"after"]) * 3)
    assert list(read(path)) == [b"before", payload, b"after"] * 3


def test_several_gzip_members_are_one_file(path):
    path.write_bytes(gzip.compress(DATA[:30]) + gzip.compress(b"") + gzip.compress(DATA[30:]))
    assert list(read(path)) == PAYLOADS


@pytest.mark.parametrize("compression", ["auto", None, "GZIP", "ZLIB"])
def test_an_empty_file_has_no_records(path, compression):
    path.write_bytes(b"")
    assert list(read(path, compression=compression)) == []


def test_files_are_read_one_after_another_and_errors_name_theirs(tmp_path):
    for number, data in enumerate((DATA, gzip.compress(DATA), DATA[:-1])):
        (tmp_path / f"{number}").write_bytes(data)
    found, error = read_until_error(tmp_path)
    assert found == PAYLOADS * 2 + PAYLOADS[:2]
    check_located(error, tmp_path / "2", 2, 37)


@pytest.mark.parametrize("cut", [cut for cut in range(1, len(DATA)) if cut not in STARTS])
def test_a_file_that_ends_inside_a_record_gives_what_is_whole_and_then_the_place(path, cut):
    path.write_bytes(DATA[:cut])
    record = max(number for number, start in enumerate(STARTS) if start < cut)
    found, error = read_until_error(path)
    assert found == PAYLOADS[:record]
    check_located(error, path, record, STARTS[record])
    inside_header = cut - STARTS[record] < 12
    assert ("the header is cut off" if inside_header else "bytes of payload") in error.what


def test_a_flipped_bit_anywhere_is_found_and_placed(path):
    for bit in range(8 * len(DATA)):
        path.write_bytes(flip(DATA, bit))
        record = max(number for number, start in enumerate(STARTS) if start <= bit // 8)
        found, error = read_until_error(path)
        assert found == PAYLOADS[:record]
        check_located(error, path, record, STARTS[record])
        inside_header = bit // 8 - STARTS[record] < 12
        assert error.what.startswith("header checksum" if inside_header else "payload checksum")


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zlib.compress])
@pytest.mark.parametrize("length", [2**63, 2**63 - 1, 2**64 - 1, 2**64 - 16, 2**40, 2**31 + 1])
def test_a_length_that_cannot_be_is_refused(path, pack, length):
    path.write_bytes(pack(frame(b"good") + header(length) + b"payload"))
    found, error = read_until_error(path)
    assert found == [b"good"]
    assert str(length) in error.what
    check_located(error, path, 1, 20)


@given(st.binary(min_size=1, max_size=100))
def test_random_bytes_are_no_records(tmp_path_factory, junk):
    path = tmp_path_factory.mktemp("junk") / "a"
    path.write_bytes(junk)
    found, error = read_until_error(path)
    assert found == []
    if isinstance(error, NotTFRecord):  # text, say
        assert (error.path, error.record, error.offset) == (str(path), 0, 0)
    else:
        check_located(error, path, 0, 0)


def test_a_gzip_file_cut_at_any_byte_gives_the_records_before_and_then_the_place(path):
    packed = gzip.compress(DATA, mtime=0)
    for cut in range(3, len(packed)):
        path.write_bytes(packed[:cut])
        found, error = read_until_error(path)
        assert found == PAYLOADS[: len(found)]
        check_located(error, path, len(found), STARTS[len(found)])
        assert "the gzip stream ends early" in error.what


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress])
def test_a_flipped_bit_anywhere_in_a_compressed_file_never_gives_a_wrong_record(path, pack):
    packed = pack(DATA)
    for bit in range(8 * len(packed)):
        path.write_bytes(flip(packed, bit))
        with contextlib.suppress(CorruptRecord):
            # Some bits of gzip's header say nothing about the data.
            assert list(read(path)) == PAYLOADS


@pytest.mark.parametrize(
    ("pack", "compression", "what"),
    [
        (bytes, "GZIP", "not compressed"),
        (bytes, "ZLIB", "not compressed"),
        (gzip.compress, "ZLIB", "gzip-compressed"),
        (zlib.compress, "GZIP", "zlib-compressed"),
        (gzip.compress, None, "gzip-compressed"),
        (zlib.compress, "", "zlib-compressed"),
    ],
)
def test_the_wrong_compression_is_told(path, pack, compression, what):
    path.write_bytes(pack(DATA))
    found, error = read_until_error(path, compression=compression)
    assert found == []
    assert isinstance(error, NotTFRecord)
    assert error.what == f"this TFRecord file is {what}, but was opened with another compression setting"
    assert 'leave `compression` at "auto"' in error.remedy


@pytest.mark.parametrize(
    ("compression", "what"), [("GZIP", "not a gzip stream"), ("ZLIB", "not a zlib stream")]
)
def test_a_file_that_is_not_compressed_and_not_sound_is_told_with_its_place(path, compression, what):
    path.write_bytes(flip(DATA, 0))
    found, error = read_until_error(path, compression=compression)
    assert found == []
    assert what in error.what
    check_located(error, path, 0, 0)


def test_bytes_behind_a_zlib_stream_are_told(path):
    path.write_bytes(zlib.compress(DATA) + b"more")
    found, error = read_until_error(path)
    assert found == PAYLOADS
    check_located(error, path, 3, 62)


def test_without_verify_payloads_are_not_checked_and_headers_are(path):
    path.write_bytes(flip(DATA, 8 * 12))
    assert list(read(path, verify=False)) == [flip(b"first", 0), *PAYLOADS[1:]]
    path.write_bytes(flip(DATA, 8 * 21))
    found, error = read_until_error(path, verify=False)
    assert found == PAYLOADS[:1]
    check_located(error, path, 1, 21)


def test_skip_passes_over_damaged_payloads_and_counts_them_in_one_warning(tmp_path):
    damaged = flip(flip(DATA, 8 * 12), 8 * 50)
    for name in "abc":
        (tmp_path / name).write_bytes(damaged)
    with pytest.warns(RuntimeWarning, match="^6 damaged records") as caught:
        assert list(read(tmp_path, on_corrupt="skip")) == [b""] * 3
    assert len(caught) == 1
    assert f"{tmp_path}/a: record 0 at byte 0" in str(caught[0].message)
    assert caught[0].filename == __file__


def test_skip_goes_on_at_the_next_sound_header_after_a_damaged_one(path):
    path.write_bytes(frame(b"one") + b"junk" + flip(frame(b"two"), 3) + frame(b"three"))
    with pytest.warns(
        RuntimeWarning, match=r"^1 damaged.*record 1 at byte 19.*next sound header is at byte 42"
    ):
        assert list(read(path, on_corrupt="skip")) == [b"one", b"three"]


def test_skip_without_verify_goes_by_headers_alone(path):
    path.write_bytes(flip(frame(b"one"), 8 * 12) + b"junk" + frame(b"two"))
    with pytest.warns(RuntimeWarning, match="^1 damaged"):
        assert list(read(path, on_corrupt="skip", verify=False)) == [flip(b"one", 0), b"two"]


def test_skip_gives_the_records_before_the_end_of_a_truncated_gzip_file(path):
    noise = [random.Random(n).randbytes(5000) for n in range(40)]
    packed = gzip.compress(frames(noise))
    path.write_bytes(packed[: len(packed) // 2])
    with pytest.warns(RuntimeWarning, match="damaged"):
        found = list(read(path, on_corrupt="skip"))
    assert 15 <= len(found) < 25
    assert found == noise[: len(found)]


def test_skip_without_damage_does_not_warn(path):
    path.write_bytes(DATA)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(read(path, on_corrupt="skip")) == PAYLOADS


def test_only_two_words_are_taken_for_on_corrupt(path):
    with pytest.raises(UsageError, match=r"'ignore'.*raise.*skip"):
        read(path, on_corrupt="ignore")


def test_what_the_operating_system_refuses_is_an_os_error_with_the_path(path):
    path.write_bytes(DATA)
    records = read([path / "not a directory"])
    with pytest.raises(NotADirectoryError) as caught:
        next(records)
    assert (caught.value.errno, caught.value.filename) == (errno.ENOTDIR, f"{path}/not a directory")


def test_a_pipe_is_read_as_it_comes(tmp_path):
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    script = """
import sys, time
with open(sys.argv[1], "wb", buffering=0) as pipe:
    data = bytes.fromhex(sys.argv[2])
    for at in range(0, len(data), 1000):
        pipe.write(data[at:at + 1000])
        time.sleep(0.01)
"""
    payloads = [bytes([n]) * 100 for n in range(100)]
    with subprocess.Popen([sys.executable, "-c", script, fifo, frames(payloads).hex()]):
        assert list(read(fifo)) == payloads


def test_a_reader_that_is_dropped_midway_closes_its_file(path):
    path.write_bytes(frame(b"x" * 1000) * 2000)
    script = """
import os, sys
from feedline.records import read

def is_open():
    handles = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
    return sys.argv[1] in [os.readlink(handle) for handle in handles if os.path.lexists(handle)]

records = read(sys.argv[1])
assert not is_open()
next(records)
assert is_open()
del records
assert not is_open()
"""
    run_python(script, path)


def test_thousands_of_files_are_read_with_few_handles(tmp_path):
    for number in range(2000):
        (tmp_path / f"{number:04}").write_bytes(frame(struct.pack("<I", number)))
    script = """
import resource, struct, sys
from feedline.records import count, read
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
assert [struct.unpack("<I", record)[0] for record in read(sys.argv[1])] == list(range(2000))
assert count(sys.argv[1]) == 2000
"""
    run_python(script, tmp_path)

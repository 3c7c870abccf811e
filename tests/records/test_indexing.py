"""index: where each record lies, kept in a sidecar that notices when its file changed."""

import gzip
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feedline import _native
from feedline.errors import CorruptRecord, UsageError
from feedline.records import index
from tests.records.corrupt import bytes_read, check_located, flip, frame, frames

PAYLOADS = [b"one", b"", b"three" * 100]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "a.tfrecord"
    path.write_bytes(frames(PAYLOADS))
    return path


@pytest.fixture
def sidecar(path):
    index(path)
    return path.with_name("a.tfrecord.flindex")


def payloads_by(found, data):
    """The payloads that an index cuts out of the file's bytes."""
    spans = zip(found.offsets.tolist(), found.lengths.tolist(), strict=True)
    return [data[at + 12 : at + 12 + size] for at, size in spans]


def check_index(path):
    """The index is that of the file as it is now."""
    found, data = index(path), path.read_bytes()
    assert frames(payloads_by(found, data)) == data
    assert len(found) == len(found.offsets)


@given(st.lists(st.binary(max_size=50), max_size=30))
def test_offsets_and_lengths_cut_the_records_out_of_the_file(tmp_path_factory, payloads):
    path = tmp_path_factory.mktemp("index") / "a"
    path.write_bytes(frames(payloads))
    for _ in range(2):  # walked, then from the sidecar
        assert payloads_by(index(path), path.read_bytes()) == payloads


def test_the_second_time_the_sidecar_is_used_instead_of_the_file(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(frame(b"\0" * 500_000) * 10)
    before = bytes_read()
    first = index(path)
    walked = bytes_read() - before
    second = index(path)
    used = bytes_read() - before - walked
    assert walked >= 5_000_000
    assert used < 100_000
    np.testing.assert_array_equal(first.offsets, second.offsets)
    np.testing.assert_array_equal(first.lengths, second.lengths)


def test_nothing_but_the_sidecar_is_left_in_the_directory(path, sidecar):
    assert sorted(path.parent.iterdir()) == [path, sidecar]


CHANGES = {
    "appended": lambda data: data + frame(b"more"),
    "shortened": lambda data: frames(PAYLOADS[:2]),
    "rewritten in the same size": lambda data: frames(PAYLOADS[::-1]),
    "two records swapped": lambda data: frames([PAYLOADS[1], PAYLOADS[0], PAYLOADS[2]]),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("restore_time", [False, True])
def test_a_changed_file_is_noticed(path, sidecar, change, restore_time):
    times = path.stat()
    path.write_bytes(CHANGES[change](path.read_bytes()))
    if restore_time:
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    check_index(path)
    check_index(path)


def test_a_file_that_was_replaced_by_another_of_the_same_size_and_time_is_noticed(path, sidecar):
    times = path.stat()
    other = path.with_name("other")
    other.write_bytes(frames(PAYLOADS[::-1]))
    os.utime(other, ns=(times.st_atime_ns, times.st_mtime_ns))
    other.replace(path)
    check_index(path)


def test_a_sidecar_of_another_file_is_not_believed(path, sidecar):
    other = path.with_name("b.tfrecord")
    other.write_bytes(frames(PAYLOADS[::-1]))
    sidecar.rename(other.with_name("b.tfrecord.flindex"))
    check_index(other)


def test_every_damaged_byte_of_a_sidecar_is_noticed_and_mended(path, sidecar):
    good = sidecar.read_bytes()
    for at in range(len(good)):
        for bit in (0, 7):
            sidecar.write_bytes(flip(good, 8 * at + bit))
            check_index(path)
            assert sidecar.read_bytes() == good


def test_a_sidecar_cut_at_any_byte_is_made_anew(path, sidecar):
    good = sidecar.read_bytes()
    for end in range(len(good)):
        sidecar.write_bytes(good[:end])
        check_index(path)
        assert sidecar.read_bytes() == good


# The words of a sidecar: magic, size, time, checksum of the ends, number of records, offsets.
FORGERIES = {
    "a count of 2**63": lambda words: [*words[:4], 2**63, *words[5:]],
    "a count of 0": lambda words: [*words[:4], 0, *words[5:]],
    "a count too high": lambda words: [*words[:4], words[4] + 1, *words[5:]],
    "an offset far outside": lambda words: [*words[:6], 2**64 - 1, *words[7:]],
    "an end far outside": lambda words: [*words[:-1], 2**64 - 1],
    "offsets that fall": lambda words: [*words[:6], words[7], words[6], *words[8:]],
    "a record of a negative size": lambda words: [*words[:6], words[5] + 1, *words[7:]],
    "a first offset that is not 0": lambda words: [*words[:5], 1, *words[6:]],
    "no offsets": lambda words: words[:5],
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_sidecar_that_lies_under_a_sound_checksum_is_made_anew(path, sidecar, forgery):
    good = sidecar.read_bytes()
    words = np.frombuffer(good, np.uint64)[:-1].tolist()
    body = np.array(FORGERIES[forgery](words), np.uint64).view(np.uint8)
    sidecar.write_bytes(body.tobytes() + np.uint64(_native.crc32c(body)).tobytes())
    check_index(path)
    assert sidecar.read_bytes() == good


@given(st.binary(max_size=200))
@settings(max_examples=50)
def test_a_sidecar_of_random_bytes_is_made_anew(tmp_path_factory, junk):
    path = tmp_path_factory.mktemp("junk") / "a"
    path.write_bytes(frames(PAYLOADS))
    path.with_name("a.flindex").write_bytes(junk)
    check_index(path)


def test_a_directory_in_the_place_of_the_sidecar_does_no_harm(path):
    path.with_name("a.tfrecord.flindex").mkdir()
    check_index(path)
    check_index(path)
    assert len(list(path.parent.iterdir())) == 2


def test_a_directory_that_cannot_be_written_still_gives_an_index(path):
    with path.open("rb") as file:
        found = index(f"/proc/self/fd/{file.fileno()}")  # read-only for root, too
    assert payloads_by(found, path.read_bytes()) == PAYLOADS
    assert list(path.parent.iterdir()) == [path]


def test_a_full_disk_still_gives_an_index_and_keeps_nothing(path, monkeypatch):
    def replace(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", replace)
    check_index(path)
    assert list(path.parent.iterdir()) == [path]


def test_a_file_from_before_1970_has_an_index_too(path):
    os.utime(path, ns=(-(10**9), -(10**9)))
    check_index(path)
    assert path.with_name("a.tfrecord.flindex").exists()
    check_index(path)


def test_processes_that_index_at_once_all_get_it(path):
    path.write_bytes(frames([bytes(n % 50) for n in range(5000)]))
    script = "import sys, feedline.records as r; print(len(r.index(sys.argv[1])))"
    workers = [
        subprocess.Popen([sys.executable, "-c", script, path], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    assert [worker.communicate(timeout=200)[0] for worker in workers] == ["5000\n"] * 3
    assert len(list(path.parent.iterdir())) == 2
    check_index(path)


def test_a_compressed_file_has_no_index_and_the_error_says_what_to_do(tmp_path):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(frames(PAYLOADS)))
    with pytest.raises(UsageError, match=r"(?s)a\.gz.*compressed.*without compression"):
        index(path)


def test_a_damaged_header_is_told_with_its_place_and_no_sidecar_is_written(path):
    path.write_bytes(flip(path.read_bytes(), 8 * 19))
    with pytest.raises(CorruptRecord) as caught:
        index(path)
    check_located(caught.value, path, 1, 19)
    assert list(path.parent.iterdir()) == [path]

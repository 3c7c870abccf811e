"""count: the number of records, by their headers or from the sidecar."""

import gzip

import pytest

from feedline.errors import CorruptRecord
from feedline.records import count, index
from tests.records.corrupt import bytes_read, check_located, flip, frame, frames


@pytest.mark.parametrize("payloads", [[], [b""], [b"a", b"", b"bc" * 1000], [b"x" * 700_000] * 3])
def test_every_record_counts_in_plain_and_compressed_files(tmp_path, payloads):
    plain, packed = tmp_path / "a", tmp_path / "b"
    plain.write_bytes(frames(payloads))
    packed.write_bytes(gzip.compress(frames(payloads)))
    assert count(plain) == count(packed) == len(payloads)
    assert count([plain, packed]) == count(tmp_path) == 2 * len(payloads)


def test_more_records_than_one_batch_holds_are_counted(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(frame(b"") * 40_000)
    assert count(path) == 40_000


def test_payloads_are_not_looked_at(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(flip(frames([b"abc"] * 3), 8 * 13))
    assert count(path) == 3


def test_a_damaged_header_is_told_with_its_place(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(flip(frames([b"abc"] * 3), 8 * 19))
    with pytest.raises(CorruptRecord, match="header checksum") as caught:
        count(path)
    check_located(caught.value, path, 1, 19)


def test_the_sidecar_saves_reading_the_file(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(frame(b"\0" * 500_000) * 10)
    index(path)
    before = bytes_read()
    assert count(path) == 10
    assert bytes_read() - before < 100_000


def test_without_a_sidecar_none_is_written(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(frame(b"abc"))
    count(path)
    assert list(tmp_path.iterdir()) == [path]

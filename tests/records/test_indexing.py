"""index: where each record lies, kept in a sidecar that notices when its file changed."""

import gzip
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feedline import _native
from feedline.errors import CorruptRecord, UsageError
from feedline.records import index
from feedline.records.indexing import known_end, store_features, stored_features, write_index
from feedline.records.known_indexes import load_index
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
    return path.with_name(".a.tfrecord.flindex")


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
    path.write_bytes(frame(b"\0" * 500) * 10_000)
    before = bytes_read()
    first = index(path)
    walked = bytes_read() - before
    second = index(path)
    used = bytes_read() - before - walked
    assert walked >= 5_000_000
    assert used < 100_000
    np.testing.assert_array_equal(first.offsets, second.offsets)
    np.testing.assert_array_equal(first.lengths, second.lengths)


def test_payloads_that_are_larger_than_a_read_are_passed_over(tmp_path):
    path = tmp_path / "a"
    payloads = [bytes(size) for size in (3_000_000, 10, 5_000_000, 0, 300_000, 2_000_000)]
    path.write_bytes(frames(payloads))
    before = bytes_read()
    found = index(path)
    assert bytes_read() - before < 2_000_000
    assert found.lengths.tolist() == [len(payload) for payload in payloads]


def test_nothing_but_the_sidecar_is_left_in_the_directory(path, sidecar):
    assert sorted(path.parent.iterdir()) == [sidecar, path]


@pytest.mark.parametrize("files", ["", "*.tfrecord"])
def test_several_files_need_a_list(path, files):
    several = f"{path.parent}/{files}"
    with pytest.raises(UsageError, match=r"stands for several files.*index\(\["):
        index(several)
    assert [len(one) for one in index([several])] == [3]


def test_ctrl_c_and_an_error_of_progress_end_the_walk(path):
    paths = [os.fsencode(path)] * 2_000_000  # for much longer than it takes to be noticed

    def fail(read):
        raise KeyError(read)

    with pytest.raises(KeyError):
        _native.walk_headers(paths, fail)
    ctrl_c = threading.Timer(0.1, signal.raise_signal, [signal.SIGINT])
    ctrl_c.start()
    with pytest.raises(KeyboardInterrupt):
        _native.walk_headers(paths, None)
    ctrl_c.join()


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
    sidecar.rename(other.with_name(".b.tfrecord.flindex"))
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


# Of the header (magic, size, time, checksum of the ends, records, size of the text) and the offsets.
FORGERIES = {
    "a count of 2**63": lambda head, offsets: ([*head[:4], 2**63, 0], offsets),
    "a count of 2**64 - 1": lambda head, offsets: ([*head[:4], 2**64 - 1, 0], offsets),
    "a count of 0": lambda head, offsets: ([*head[:4], 0, 0], offsets),
    "a count too high": lambda head, offsets: ([*head[:4], head[4] + 1, 0], offsets),
    "a text of 2**64 - 1 bytes": lambda head, offsets: ([*head[:5], 2**64 - 1], offsets),
    "a text larger than the sidecar": lambda head, offsets: ([*head[:5], 1000], offsets),
    "an offset far outside": lambda head, offsets: (head, [offsets[0], 2**64 - 1, *offsets[2:]]),
    "an end far outside": lambda head, offsets: (head, [*offsets[:-1], 2**64 - 1]),
    "offsets that fall": lambda head, offsets: (head, [offsets[0], offsets[2], offsets[1], offsets[3]]),
    "a record of a negative size": lambda head, offsets: (head, [0, 1, *offsets[2:]]),
    "a first offset that is not 0": lambda head, offsets: (head, [1, *offsets[1:]]),
    "no offsets": lambda head, offsets: (head, []),
    "a file and a count beyond all memory": lambda head, offsets: (
        [head[0], 2**60, *head[2:4], 2**56, 0],
        offsets,
    ),
}


def with_checksum(data):
    return data + np.uint64(_native.crc32c(np.frombuffer(data, np.uint8))).tobytes()


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_sidecar_that_lies_under_a_sound_checksum_is_made_anew(path, sidecar, forgery):
    good = sidecar.read_bytes()
    words = np.frombuffer(good, np.uint64).tolist()
    head, offsets = FORGERIES[forgery](words[:6], words[7:-1])
    begin = with_checksum(np.array(head, np.uint64).tobytes())
    sidecar.write_bytes(with_checksum(begin + np.array(offsets, np.uint64).tobytes()))
    check_index(path)
    assert sidecar.read_bytes() == good


@given(st.binary(max_size=200))
@settings(max_examples=50)
def test_a_sidecar_of_random_bytes_is_made_anew(tmp_path_factory, junk):
    path = tmp_path_factory.mktemp("junk") / "a"
    path.write_bytes(frames(PAYLOADS))
    path.with_name(".a.flindex").write_bytes(junk)
    check_index(path)


def test_a_directory_in_the_place_of_the_sidecar_does_no_harm(path):
    path.with_name(".a.tfrecord.flindex").mkdir()
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
    assert path.with_name(".a.tfrecord.flindex").exists()
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


def version_1(path):
    """The sidecar that older versions wrote, under their name for it."""
    words = np.frombuffer(path.with_name(f".{path.name}.flindex").read_bytes(), np.uint64)
    old = path.with_name(f"{path.name}.flindex")
    old.write_bytes(with_checksum(b"FLINDEX1" + words[1:5].tobytes() + words[7:-1].tobytes()))
    return old


def test_an_index_is_hidden_beside_its_file(path, sidecar):
    assert sidecar.exists()
    assert [found.name for found in path.parent.glob("[!.]*")] == ["a.tfrecord"]


def test_the_visible_index_of_an_older_version_is_used_as_it_is(path, sidecar):
    old = version_1(path)
    sidecar.unlink()
    before = bytes_read()
    check_index(path)
    np.testing.assert_array_equal(load_index(str(path)), np.cumsum([0, 19, 16, 516]))
    assert not sidecar.exists()
    assert old.exists()
    assert bytes_read() - before < 100_000


def test_a_stale_visible_index_gives_way_to_a_hidden_one(path, sidecar):
    old = version_1(path)
    path.write_bytes(frames(PAYLOADS[::-1]))
    check_index(path)
    assert sorted(path.parent.iterdir()) == [sidecar, path]
    assert not old.exists()


def test_a_true_visible_index_serves_when_the_hidden_one_is_damaged(path, sidecar):
    version_1(path)
    sidecar.write_bytes(b"FLINDEX2")
    assert load_index(str(path)) is not None


@pytest.mark.parametrize("length", [246, 247, 255])
def test_a_name_of_any_length_has_an_index(tmp_path, length):
    path = tmp_path / ("x" * length)
    path.write_bytes(frames(PAYLOADS))
    write_index(str(path), np.array([0, 19, 35, 551], np.uint64), "{}")
    assert stored_features(str(path)) == "{}"
    check_index(path)
    assert load_index(str(path)) is not None
    assert len(list(tmp_path.iterdir())) == 2
    assert list(tmp_path.glob("[!.]*")) == [path]


TEXT = '{"image": "größe"}'


@pytest.fixture
def told(path):
    """The sidecar of a writer that knows the features."""
    index(path)
    write_index(str(path), load_index(str(path)), TEXT)
    return path.with_name(".a.tfrecord.flindex")


def test_what_a_writer_knows_of_the_features_is_kept_beside_the_offsets(path, told):
    assert stored_features(str(path)) == TEXT
    np.testing.assert_array_equal(load_index(str(path)), np.cumsum([0, 19, 16, 516]))


def test_a_sidecar_without_a_text_has_no_features(path, sidecar):
    assert stored_features(str(path)) is None
    assert stored_features(str(path.with_name("missing"))) is None


def test_a_copy_with_another_time_keeps_its_features_when_it_is_indexed_again(path, told):
    os.utime(path, ns=(1, 1))
    assert load_index(str(path)) is None
    assert stored_features(str(path)) == TEXT
    check_index(path)
    assert load_index(str(path)) is not None
    assert stored_features(str(path)) == TEXT


@pytest.mark.parametrize("change", [change for change in CHANGES if change != "appended"])
def test_features_of_other_bytes_are_not_believed(path, told, change):
    path.write_bytes(CHANGES[change](path.read_bytes()))
    assert stored_features(str(path)) is None
    check_index(path)
    assert stored_features(str(path)) is None


def test_a_file_that_has_grown_keeps_its_features(path, told):
    path.write_bytes(path.read_bytes() + frame(b"more"))
    assert stored_features(str(path)) == TEXT
    check_index(path)
    assert load_index(str(path)) is not None
    assert stored_features(str(path)) == TEXT


def test_any_file_grows_from_an_empty_one_so_that_tells_nothing(path):
    path.write_bytes(b"")
    write_index(str(path), None, TEXT)
    assert stored_features(str(path)) == TEXT
    path.write_bytes(frames(PAYLOADS))
    assert stored_features(str(path)) is None


def test_features_are_stored_beside_offsets_that_are_known(path, sidecar):
    known = load_index(str(path))
    store_features(str(path), TEXT)
    assert stored_features(str(path)) == TEXT
    np.testing.assert_array_equal(load_index(str(path)), known)
    path.write_bytes(path.read_bytes() + frame(b"more"))
    store_features(str(path), "{}")
    assert known_end(str(path)) == (int(known[-1]), len(known) - 1)
    assert stored_features(str(path)) == "{}"


def test_every_damaged_byte_of_the_text_is_noticed(path, told):
    good = told.read_bytes()
    header = 48 + len(TEXT.encode()) + -len(TEXT.encode()) % 8 + 8
    for bit in range(8 * header):
        told.write_bytes(flip(good, bit))
        assert stored_features(str(path)) is None
        assert load_index(str(path)) is None
    for end in range(header):
        told.write_bytes(good[:end])
        assert stored_features(str(path)) is None


def test_a_text_that_is_not_utf8_is_not_believed(path, told):
    good = bytearray(told.read_bytes())
    good[48] = 0xFF
    told.write_bytes(with_checksum(bytes(good[:72])) + bytes(good[80:]))
    assert stored_features(str(path)) is None


def test_a_compressed_file_keeps_its_features_without_offsets(tmp_path):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(frames(PAYLOADS)))
    write_index(str(path), None, TEXT)
    assert stored_features(str(path)) == TEXT
    assert load_index(str(path)) is None
    assert known_end(str(path)) == (0, 0)


def test_a_sidecar_that_cannot_be_written_is_an_error_for_a_writer_and_leaves_nothing(path, monkeypatch):
    def replace(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(OSError, match="No space"):
        write_index(str(path), None, TEXT)
    assert list(path.parent.iterdir()) == [path]

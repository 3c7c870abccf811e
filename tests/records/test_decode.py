"""decode and read_blocks: records that are damaged or do not fit, order, threads, and what is left behind."""

import gzip
import random
import threading

import numpy as np
import pytest

from feedline.block import Ragged
from feedline.errors import CorruptRecord, SchemaError, UsageError
from feedline.records import read_blocks
from feedline.records.decode import decode
from feedline.records.features import (
    FixedLenFeature,
    FixedLenSequenceFeature,
    RaggedFeature,
    RawFeature,
    SequenceFeatures,
    TensorFeature,
    VarLenFeature,
)
from tests.records.corrupt import (
    check_located,
    example,
    field,
    flip,
    frame,
    frames,
    header,
    ints,
    run_python,
    strings,
    varint,
)

FEATURES = {"a": FixedLenFeature([2], "int64"), "b": VarLenFeature("string"), "c": VarLenFeature("float32")}
GOOD = example(a=ints(1, 2), b=strings(b"x", b"yz"))
START = len(frame(GOOD))  # of the second record


def with_key(key: bytes) -> bytes:
    return field(1, field(1, field(1, key) + field(2, ints(1))))


MALFORMED = {
    "an inner length that runs past the end": field(1, b"\x0a\x7fabc"),
    "an outer length that runs past the end": b"\x0a\x7fabc",
    "a length of 2**63": b"\x0a" + varint(2**63) + b"abc",
    "a feature whose length runs past its entry": field(1, field(1, field(1, b"a") + b"\x12\x7f\x1a\x00")),
    "a list whose length runs past its feature": example(a=b"\x1a\x7f\x0a\x00"),
    "a packed run whose length runs past its list": example(a=field(3, b"\x0a\x7f\x01\x02")),
    "a value of 11 bytes": example(a=field(3, field(1, b"\xff" * 10 + b"\x01\x01"))),
    "a tag of 11 bytes": b"\xff" * 10 + b"\x01",
    "a length of 11 bytes": b"\x0a" + b"\x80" * 10 + b"\x01",
    "a value that has no end": example(a=field(3, field(1, b"\x01\xff"))),
    "only a value that has no end": example(a=field(3, field(1, b"\x80"))),
    "a field with the number 0": b"\x02\x00",
    "a list of strings with the number 0": example(a=ints(1, 2), b=b"\x00\x02\x0a\x00"),
    "a list of floats with the number 0": example(a=ints(1, 2), c=b"\x00\x02\x0a\x00"),
    "a group that has no end": b"\x1b",
    "the end of a group that did not begin": b"\x1c",
    "a wire type that does not exist": b"\x0e\x00",
    "floats that are no multiple of 4 bytes": example(a=ints(1, 2), c=field(2, field(1, b"abc"))),
    "a key that is not UTF-8": with_key(b"\xff"),
    "a key that is half a letter": with_key("é".encode()[:1]),
    "a key that is a surrogate": with_key(b"\xed\xa0\x80"),
    "text": b"hello, world",
}

MISFITS = {
    "holds float32 values, but int64 is expected": example(a=field(2, field(1, bytes(8)))),
    "holds bytes values, but int64 is expected": example(a=strings(b"x", b"y")),
    "is missing, and has no default value": example(b=strings(b"x")),
    "holds 1 value, but 2 are expected": example(a=ints(7)),
    "holds 3 values, but 2 are expected": example(a=ints(7, 8, 9)),
    "holds 0 values, but 2 are expected": example(a=ints()),
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.tfrecord"


def rows_until(kind, path, **options):
    """The number of rows before the error, and the error."""
    blocks = []
    with pytest.raises(kind) as caught:
        blocks.extend(read_blocks(path, FEATURES, **options))
    return sum(block.rows for block in blocks), caught.value


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_message_is_a_corrupt_record_with_its_place(path, name, threads):
    path.write_bytes(frames([GOOD, MALFORMED[name], GOOD]))
    rows, error = rows_until(CorruptRecord, path, threads=threads)
    assert rows == 1
    check_located(error, path, 1, START)
    with pytest.raises(CorruptRecord) as caught:
        decode([GOOD, MALFORMED[name]], FEATURES)
    assert (caught.value.path, caught.value.record) == (None, 1)
    assert caught.value.remedy


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("what", MISFITS)
def test_a_record_that_does_not_fit_is_a_schema_error_with_its_place_and_feature(path, what, threads):
    path.write_bytes(frames([GOOD, MISFITS[what], GOOD]))
    rows, error = rows_until(SchemaError, path, threads=threads)
    assert rows == 1
    check_located(error, path, 1, START)
    assert (error.feature, error.what) == ("a", what)
    assert "feature 'a'" in str(error)
    with pytest.raises(SchemaError, match=what):
        decode(MISFITS[what], FEATURES)


def test_a_schema_error_is_raised_even_where_damage_is_skipped(path):
    path.write_bytes(frames([GOOD, MISFITS["holds 1 value, but 2 are expected"], GOOD]))
    rows, error = rows_until(SchemaError, path, on_corrupt="skip")
    assert rows == 1
    check_located(error, path, 1, START)


def test_a_feature_without_a_kind_is_a_missing_one():
    record = example(a=b"", b=b"")
    assert decode(record, {"b": VarLenFeature("string")})["b"].tolist() == []
    assert decode(record, {"a": FixedLenFeature([], "int64", default_value=7)})["a"] == 7
    with pytest.raises(SchemaError, match="is missing"):
        decode(record, FEATURES)


def test_unknown_fields_in_the_entry_of_a_map_do_not_hide_it():
    record = field(1, field(1, field(3, b"?") + field(1, b"a") + field(2, ints(1, 2)) + field(4, b"?")))
    assert decode(record, FEATURES)["a"].tolist() == [1, 2]


def test_steps_must_come_out_even():
    features = {"a": FixedLenSequenceFeature([2], "int64", allow_missing=True)}
    with pytest.raises(SchemaError, match="holds 3 values, but each step needs 2"):
        decode(example(a=ints(1, 2, 3)), features)


def test_steps_that_may_not_be_missing_must_be_there():
    with pytest.raises(SchemaError, match="feature 'a': is missing"):
        decode(b"", {"a": FixedLenSequenceFeature([], "int64")})


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("cut", [1, 4, 5, 30, START - 12, START - 1])
def test_a_file_that_is_cut_off_gives_its_whole_rows_and_then_the_place(path, cut, threads):
    path.write_bytes(frame(GOOD) * 10 + frame(GOOD)[:-cut])
    rows, error = rows_until(CorruptRecord, path, threads=threads, rows=3)
    assert rows == 10
    check_located(error, path, 10, 10 * START)


def test_a_length_of_two_to_the_63_is_told_with_its_place(path):
    path.write_bytes(frame(GOOD) + header(2**63) + b"x" * 100)
    rows, error = rows_until(CorruptRecord, path)
    assert rows == 1
    check_located(error, path, 1, START)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_flipped_bit_anywhere_never_gives_a_wrong_row(path, threads):
    data = frame(GOOD) * 2
    for bit in range(0, 8 * len(data), 3):
        path.write_bytes(flip(data, bit))
        rows, error = rows_until(CorruptRecord, path, threads=threads)
        hit = bit // 8 // START
        assert rows == hit
        check_located(error, path, hit, hit * START)


@pytest.mark.parametrize("threads", [1, 3])
def test_skip_drops_what_is_damaged_in_any_way_and_counts_it_in_one_warning(tmp_path, threads):
    data = [frame(example(a=ints(n, -n))) for n in range(100)]
    data[10] = flip(data[10], 8 * 15)  # in the payload
    data[20] = flip(data[20], 3)  # in the header
    data[30] = frame(b"hello, world")  # no Example
    data[40] = b"junk" + data[40]
    data[99] = data[99][:-2]
    for name in "ab":
        (tmp_path / name).write_bytes(b"".join(data))
    with pytest.warns(RuntimeWarning, match=r"^10 damaged.*/a: record 10 at byte") as caught:
        blocks = list(read_blocks(tmp_path, FEATURES, rows=7, threads=threads, on_corrupt="skip"))
    assert len(caught) == 1
    kept = [n for n in range(100) if n not in (10, 20, 30, 99)]
    assert np.concatenate([block.as_batch()["a"][:, 0] for block in blocks]).tolist() == kept * 2


@pytest.mark.parametrize("threads", [1, 3])
def test_without_verify_a_damaged_payload_is_decoded_as_it_is(path, threads):
    record = example(a=ints(1, 2))
    path.write_bytes(flip(frame(record), 8 * (12 + len(record)) - 7))
    (block,) = read_blocks(path, FEATURES, verify=False, threads=threads)
    assert block.row(0)["a"].tolist() == [1, 0]


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("rows", [1, 3, 256, 10**9])
def test_order_and_rows_do_not_depend_on_threads_or_the_ends_of_files(tmp_path, rows, threads):
    for number in range(5):
        data = frames(example(a=ints(number, n), b=strings(bytes(n % 7))) for n in range(number * 37))
        (tmp_path / f"{number}").write_bytes(gzip.compress(data) if number % 2 else data)
    blocks = list(read_blocks(tmp_path, FEATURES, rows=rows, threads=threads))
    found = np.concatenate([block.as_batch()["a"] for block in blocks]).tolist()
    assert found == [[number, n] for number in range(5) for n in range(number * 37)]
    assert {block.rows for block in blocks[:-1]} <= {rows}


@pytest.mark.parametrize("threads", [1, 2])
def test_files_without_records_give_no_blocks(path, threads):
    path.write_bytes(b"")
    assert list(read_blocks([path, path], FEATURES, threads=threads)) == []


@pytest.mark.parametrize("threads", [1, 2])
def test_a_missing_file_among_others_is_told_after_the_rows_before_it(path, tmp_path, threads):
    path.write_bytes(frame(GOOD) * 3)
    rows, error = rows_until(FileNotFoundError, [path, tmp_path / "gone", path], rows=2, threads=threads)
    assert rows == 3
    assert error.filename == str(tmp_path / "gone")


@pytest.mark.parametrize(
    "wrong", [{"rows": 0}, {"threads": 0}, {"on_corrupt": "drop"}, {"compression": "xz"}]
)
def test_arguments_that_cannot_be_meant_are_refused_at_once(path, wrong):
    with pytest.raises(UsageError, match=next(iter(wrong))):
        read_blocks(path, FEATURES, **wrong)


@pytest.mark.parametrize("wrong", ["text", ["text"], [None], [b"", bytearray(b"")]])
def test_records_that_are_not_bytes_are_refused_by_name(wrong):
    with pytest.raises((UsageError, TypeError), match="bytes"):
        decode(wrong, {"x": VarLenFeature("int64")})


def test_no_records_are_a_batch_of_no_rows():
    features = {
        "fixed": FixedLenFeature([2], "int64"),
        "text": FixedLenFeature([], "string", default_value=b"?"),
        "nothing": FixedLenFeature([0], "string", default_value=[]),
        "varlen": VarLenFeature("float32"),
        "ragged": RaggedFeature("string", value_key="a"),
        "steps": FixedLenSequenceFeature([3], "float32", allow_missing=True),
        "raw": RawFeature([2, 2], "uint8"),
        "tensor": TensorFeature([2], "float32"),
        "open": TensorFeature([None], "float32"),
        "open twice": TensorFeature([None, None], "float32"),
    }
    batch = decode([], features)
    assert {key: len(value) for key, value in batch.items()} == dict.fromkeys(features, 0)
    assert batch["fixed"].shape == (0, 2)
    assert batch["nothing"].shape == (0, 0)
    assert batch["raw"].shape == (0, 2, 2)
    assert batch["steps"].shape == (0, 0, 3)
    context, sequences = decode([], SequenceFeatures({"a": features["fixed"]}, {"b": features["varlen"]}))
    assert (len(context["a"]), len(sequences["b"])) == (0, 0)


def test_features_of_no_values_keep_their_rows():
    features = {"s": FixedLenFeature([0], "string"), "n": FixedLenFeature([2, 0], "int64")}
    batch = decode([example(s=strings(), n=ints())] * 3, features)
    assert (batch["s"].shape, batch["n"].shape) == ((3, 0), (3, 2, 0))


def test_a_default_of_minus_zero_is_not_that_of_zero():
    for default in (0.0, -0.0, 0.0):
        found = decode(b"", {"x": FixedLenFeature([], "float32", default)})["x"]
        assert np.signbit(found) == np.signbit(default)


def test_keys_come_in_the_order_of_the_features():
    for order in ("ab", "ba"):
        features = {key: VarLenFeature("int64") for key in order}
        assert list(decode(b"", features)) == list(order)
        context, sequence = decode(b"", SequenceFeatures(features, features))
        assert (list(context), list(sequence)) == (list(order), list(order))


@pytest.mark.parametrize(
    ("feature", "value"),
    [
        (FixedLenFeature([2**32, 2**32], "float32"), field(2, field(1, b""))),
        (FixedLenFeature([2**62], "float32"), field(2, field(1, b""))),
        (RawFeature([2**61], "float64"), strings(b"")),
    ],
)
def test_a_feature_larger_than_any_memory_is_an_error_and_not_a_crash(feature, value):
    with pytest.raises((ValueError, MemoryError)):
        decode(example(x=value), {"x": feature})


def test_arrays_are_aligned_for_the_frameworks(path):
    path.write_bytes(frame(GOOD) * 1000)
    for block in read_blocks(path, FEATURES, rows=100):
        batch = block.as_batch()
        assert batch["a"].ctypes.data % 64 == 0
        assert isinstance(batch["b"], Ragged)


def test_a_decoder_is_shared_by_threads_without_mixing_their_rows():
    def work(seed):
        numbers = random.Random(seed)
        for _ in range(200):
            values = [numbers.randrange(-(2**63), 2**63) for _ in range(2)]
            batch = decode([example(a=ints(*values), b=strings(b"%d" % seed))] * 3, FEATURES)
            if batch["a"].tolist() != [values] * 3 or batch["b"].to_list() != [[b"%d" % seed]] * 3:
                wrong.append(seed)

    wrong = []
    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert wrong == []


def test_a_block_outlives_its_reader(path):
    path.write_bytes(frames(example(a=ints(n, n), b=strings(b"%d" % n)) for n in range(1000)))
    blocks = read_blocks(path, FEATURES, rows=10, threads=2)
    kept = [next(blocks) for _ in range(5)]
    del blocks
    assert [row["b"].tolist() for block in kept for row in block] == [[b"%d" % n] for n in range(50)]


# For programs that watch themselves: expect() takes the number of threads beyond those at the start, and that
# of open handles of the file.
WATCH = """
import os, sys, time
from feedline.records import read_blocks
from feedline.records.features import FixedLenFeature, VarLenFeature

FEATURES = {"a": FixedLenFeature([2], "int64"), "b": VarLenFeature("string")}
AT_START = len(os.listdir("/proc/self/task"))

def state():
    handles = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
    opened = [os.readlink(handle) for handle in handles if os.path.lexists(handle)]
    return len(os.listdir("/proc/self/task")) - AT_START, opened.count(sys.argv[1])

def expect(*wanted):
    # A thread that was joined is in the kernel's list for a moment yet.
    until = time.monotonic() + 200
    while state() != wanted and time.monotonic() < until:
        time.sleep(0.001)
    assert state() == wanted, state()
"""


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_blocks_that_are_dropped_midway_leave_no_thread_and_no_file_behind(path, threads):
    path.write_bytes(frame(GOOD) * 200_000)  # more than is read ahead, so that the threads are still there
    script = f"""{WATCH}
for step in range(20):
    blocks = read_blocks(sys.argv[1], FEATURES, rows=10, threads={threads})
    next(blocks)
    expect({threads - 1}, 1)  # the caller's own thread is one of them
    if step % 2:
        blocks.close()
    else:
        del blocks
    expect(0, 0)
"""
    run_python(script, path)


def test_blocks_that_nobody_asked_for_leave_no_thread_behind(path):
    path.write_bytes(frame(GOOD) * 20_000)
    script = f"{WATCH}\nread_blocks(sys.argv[1], FEATURES, threads=4)\nexpect(0, 0)"
    run_python(script, path)


@pytest.mark.parametrize("threads", [1, 3])
def test_after_the_end_no_thread_and_no_file_is_left_though_the_iterator_lives(path, threads):
    path.write_bytes(frame(GOOD) * 100)
    script = f"""{WATCH}
blocks = read_blocks(sys.argv[1], FEATURES, threads={threads})
assert sum(block.rows for block in blocks) == 100
expect(0, 0)
"""
    run_python(script, path)


@pytest.mark.parametrize("threads", [1, 2])
def test_thousands_of_files_are_read_with_few_handles(tmp_path, threads):
    for number in range(2000):
        (tmp_path / f"{number:04}").write_bytes(frame(example(a=ints(number, 0))))
    script = f"""{WATCH}
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
blocks = read_blocks(sys.argv[1], FEATURES, rows=300, threads={threads})
assert [n for block in blocks for n in block.as_batch()["a"][:, 0]] == list(range(2000))
"""
    run_python(script, tmp_path)


def test_threads_that_cannot_be_started_are_an_error_and_not_an_abort(path):
    path.write_bytes(frame(GOOD) * 100)
    script = f"""{WATCH}
import resource
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))  # each thread reserves some MB for its stack
try:
    read_blocks(sys.argv[1], FEATURES, threads=10_000)
except Exception as error:
    print(error)
expect(0, 0)
"""
    assert "thread" in run_python(script, path)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("writer", ["none", "silent"])
def test_ctrl_c_ends_the_wait_for_a_pipe_that_never_delivers(tmp_path, threads, writer):
    script = f"""{WATCH}
import signal, threading
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored, if the tests run in the background
os.mkfifo(sys.argv[1])
if {writer == "silent"}:
    writer = os.open(sys.argv[1], os.O_RDWR)
try:
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    next(read_blocks(sys.argv[1], FEATURES, threads={threads}))
except KeyboardInterrupt:
    print("interrupted")
"""
    assert run_python(script, tmp_path / "pipe") == "interrupted\n"

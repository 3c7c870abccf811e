"""Frames give back what was put in, and a frame that lies is refused, whatever the lie."""

import struct

import msgspec
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from feedline import _native, frame
from feedline.block import Block, Bytes, Objects, Ragged
from feedline.column import length, row_of, slice_of
from feedline.errors import CorruptRecord, UsageError
from feedline.spec import dtype_of, flatten

DTYPES = ["bool", "uint8", "int16", "float32", "int64", "complex128", "bfloat16", "float8_e5m2", "int4"]
PREAMBLE = 32
RIGHT = {"x": np.arange(6, dtype="float32").reshape(2, 3), "y": Bytes.of([b"a", b"bc"])}


def block_of(columns, rows=None):
    leaves, structure = flatten(columns)
    return Block(structure, leaves, length(leaves[0]) if rows is None else rows)


def read_everything(block):
    """Touch every byte of a block in every way."""
    for element in block:
        repr(element)
    block.as_batch()
    repr(block)
    assert block.nbytes >= 0
    everything = block.take(np.arange(block.rows))
    assert Block.concat([block, everything]).rows == 2 * block.rows
    assert frame.decode(frame.encode(everything)).rows == block.rows


# --- what goes in comes out ---

shapes = st.lists(st.integers(0, 3), max_size=2).map(tuple)


@st.composite
def dense(draw, rows):
    dtype = dtype_of(draw(st.sampled_from(DTYPES)))
    shape = (rows, *draw(shapes))
    bits = np.random.default_rng(draw(st.integers(0, 99))).integers(0, 2, (*shape, dtype.itemsize), np.uint8)
    return bits.view(dtype)[..., 0]


@st.composite
def strings(draw, rows):
    shape = draw(shapes)
    count = rows * int(np.prod(shape))
    return Bytes.of(draw(st.lists(st.binary(max_size=5), min_size=count, max_size=count)), shape, rows)


@st.composite
def ragged(draw, rows, depth=0):
    offsets = np.cumsum([0, *draw(st.lists(st.integers(0, 3), min_size=rows, max_size=rows))])
    kinds = [dense, strings] + [lambda rows: ragged(rows, depth + 1)] * (depth < 2)
    return Ragged._trusted(draw(draw(st.sampled_from(kinds))(int(offsets[-1]))), offsets)


@st.composite
def objects(draw, rows):
    kind = st.sampled_from([dense, strings, ragged])
    return Objects([row_of(draw(draw(kind)(1)), 0) for _ in range(rows)])


@st.composite
def blocks(draw):
    rows = draw(st.integers(0, 5))
    columns = st.sampled_from([dense, strings, ragged, objects]).flatmap(lambda kind: kind(rows))
    tree = draw(
        st.one_of(
            columns,
            st.dictionaries(st.text(max_size=3), columns | st.none(), max_size=3),
            st.tuples(columns, columns),
        )
    )
    block = block_of(tree, rows)
    begin = draw(st.integers(0, rows))
    return block.slice(begin, draw(st.integers(begin, rows)))


@given(blocks())
def test_a_block_comes_back_as_it_was(block):
    encoded = frame.encode(block)
    decoded = frame.decode(encoded)
    assert decoded.equals(block)
    assert decoded.spec == block.spec
    assert repr(decoded.structure) == repr(block.structure)
    read_everything(decoded)
    assert len(encoded) == frame.size_of(block)
    assert frame.encode(decoded).tobytes() == encoded.tobytes()  # the same block is the same frame, always


@given(blocks(), st.integers(0, 100))
def test_encode_into_fills_the_front_of_a_buffer(block, spare):
    size = frame.size_of(block)
    buffer = bytearray(b"\xee" * (size + spare))
    assert frame.encode_into(block, buffer) == size
    assert buffer[size:] == b"\xee" * spare
    assert bytes(buffer[:size]) == frame.encode(block).tobytes()
    assert frame.decode(bytes(buffer[:size])).equals(block)


def arrays_of(column):
    if isinstance(column, np.ndarray):
        return [column]
    if isinstance(column, Bytes):
        return [column.data, column.offsets]
    if isinstance(column, Ragged):
        return [column._offsets, *arrays_of(column._values)]
    return [item for item in column.items if isinstance(item, np.ndarray) and item.dtype != object]


@given(blocks())
def test_arrays_are_aligned_read_only_views_of_the_frame(block):
    encoded = frame.encode(block)
    for column in frame.decode(encoded).columns:
        for array in arrays_of(column):
            assert array.__array_interface__["data"][0] % 64 == 0
            assert not array.flags.writeable
            assert np.shares_memory(array, encoded) or array.size == 0


def test_a_slice_travels_without_the_rest():
    column = Ragged(np.zeros(100_000), np.arange(0, 100_001, 1000))
    assert frame.size_of(block_of({"x": slice_of(column, 5, 6)})) < 9000


def test_strided_and_read_only_arrays_are_encoded_as_they_read():
    array = np.arange(24, dtype="int32").reshape(4, 6)[::-1, ::2]
    array.flags.writeable = False
    np.testing.assert_array_equal(frame.decode(frame.encode(block_of(array))).columns[0], array)


def test_a_block_without_leaves_keeps_its_rows():
    assert frame.decode(frame.encode(block_of((), 7))).rows == 7


def test_the_array_outlives_the_names_of_its_frame():
    array = frame.decode(frame.encode(block_of(np.arange(1000)))).columns[0]
    _native.empty(1 << 20)[:] = 255
    assert array.sum() == 499_500


# --- what cannot go in ---


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"a": {"b": Objects([b"x", object()])}},
            r'element\["a"\]\["b"\]: object cannot be put into a frame',
        ),
        ((Objects([{1, 2}]),), r"element\[0\]: set cannot be put"),
        (np.zeros((2, 0, 1 << 24)), "too much for an array that holds nothing"),
        ({"\ud800": np.zeros(2)}, "UTF-8"),
    ],
    ids=str,
)
def test_what_cannot_be_encoded_is_refused_by_name(columns, message):
    with pytest.raises(UsageError, match=message):
        frame.encode(block_of(columns))


def test_a_dtype_that_slipped_into_a_column_is_refused():
    structure = flatten({"t": 0})[1]
    for array in (np.zeros(2, "M8[s]"), np.zeros(2, ">i4"), np.array([b"a"], object)):
        with pytest.raises(UsageError, match=r'element\["t"\]: '):
            frame.encode(Block._trusted(structure, [array], len(array)))


def test_very_nested_raggeds_are_refused():
    column = np.zeros(1)
    for _ in range(frame.MAX_NESTING):
        column = Ragged(column, [0, 1])
    assert frame.decode(frame.encode(block_of(column))).equals(block_of(column))
    with pytest.raises(UsageError, match="nested more than 8"):
        frame.encode(block_of(Ragged(column, [0, 1])))


@pytest.mark.parametrize("buffer", [bytearray(10), bytes(1000), _native.empty(0)])
def test_a_buffer_that_is_too_small_or_read_only_is_refused(buffer):
    with pytest.raises(UsageError, match="needs a writable buffer"):
        frame.encode_into(block_of(np.zeros(1)), buffer)


# --- frames that lie ---


def forged(header, body=b"", **preamble):
    """A frame with any header, whose checksum and total size are right unless said otherwise."""
    packed = header if isinstance(header, bytes) else msgspec.msgpack.encode(header)
    start = -(-(PREAMBLE + len(packed)) // 64) * 64
    total = start + -(-len(body) // 64) * 64
    out = np.zeros(max(total, PREAMBLE), np.uint8)
    out[PREAMBLE : PREAMBLE + len(packed)] = np.frombuffer(packed, np.uint8)
    out[start : start + len(body)] = np.frombuffer(body, np.uint8)
    fields = {
        "magic": b"FLframe\0",
        "version": 1,
        "header_size": len(packed),
        "zero": 0,
        "total": total,
    } | preamble
    checked = struct.pack("<IIIQ", *(fields[name] for name in ("version", "header_size", "zero", "total")))
    crc = fields.get("crc", _native.crc32c(np.frombuffer(checked + packed, np.uint8)))
    out[:PREAMBLE] = np.frombuffer(struct.pack("<8sI", fields["magic"], crc) + checked, np.uint8)
    return out


def ints(*values):
    return np.array(values, np.int64).tobytes()


LEAF = ["leaf"]


def test_a_forged_frame_that_does_not_lie_is_taken():
    block = frame.decode(forged([3, LEAF, [["dense", "int64", []]]], ints(1, 2, 3)))
    assert block.columns[0].tolist() == [1, 2, 3]
    padded = ints(0, 1, 1, 3).ljust(64, b"\0")
    block = frame.decode(forged([3, LEAF, [["bytes", [], 3]]], padded + b"abc"))
    assert list(block) == [b"a", b"", b"bc"]
    block = frame.decode(forged([3, LEAF, [["ragged", 3, ["dense", "uint8", []]]]], padded + b"abc"))
    assert block.columns[0].to_list() == [[97], [], [98, 99]]


def offsets_then(data, *offsets):
    return ints(*offsets).ljust(64, b"\0") + data


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (b"", "at least, this has 0"),
        (b"FLframe\0", "at least, this has 8"),
        (forged([0, LEAF, [["dense", "int8", []]]], magic=b"FLgrame\0"), "begins with"),
        (forged([0, LEAF, [["dense", "int8", []]]], version=2), "version 2.0"),
        (forged([0, LEAF, [["dense", "int8", []]]], zero=1), "version 1.1"),
        (forged([0, LEAF, [["dense", "int8", []]]], crc=7), "header checksum 0x.*, frame says 0x00000007"),
        (forged([0, LEAF, [["dense", "int8", []]]], total=2**64 - 1), "18,446,744,073,709,551,615 bytes"),
        (forged([0, LEAF, [["dense", "int8", []]]], total=0), "has 0 bytes"),
        (forged([0, LEAF, [["dense", "int8", []]]], header_size=2**32 - 1), "a header of 4,294,967,295"),
        (forged(b""), "header cannot be read"),
        (forged(b"\xc1"), "header cannot be read"),
        (forged(b"\x91" * 5000), "header cannot be read"),
        (forged([0]), "header cannot be read"),
        (forged([0, LEAF, [["dense", "int8", []]], 1]), "header cannot be read"),
        (forged([0, LEAF, [["pickle", "int8", []]]]), "header cannot be read"),
        (forged([-1, LEAF, [["dense", "int8", []]]]), "header cannot be read"),
        (forged([2**60, LEAF, [["dense", "int8", []]]]), "header cannot be read"),
        (forged([0.0, LEAF, [["dense", "int8", []]]]), "header cannot be read"),
        (forged([1, LEAF, [["dense", "int8", [-1]]]]), "header cannot be read"),
        (forged([1, LEAF, [["dense", "int8", [1] * 33]]]), "header cannot be read"),
        (forged([1, LEAF, [["dense", "object", []]]], ints(1)), "'object' is no dtype"),
        (forged([1, LEAF, [["dense", "string", []]]], ints(1)), "strings are said"),
        (forged([1, LEAF, [["dense", "V8", []]]], ints(1)), "'V8' is no dtype"),
        (forged([1, LEAF, [["dense", "i4,i4", []]]], ints(1)), "'i4,i4' is no dtype"),
        (forged([1, LEAF, [["dense", "datetime64[s]", []]]], ints(1)), "is no dtype"),
        (forged([4, LEAF, [["dense", "bool", []]]], b"\0\1\2\0"), "neither 0 nor 1"),
        (forged([1, LEAF, []]), "0 columns for 1 leaves"),
        (forged([1, ["tuple", []], [["dense", "int8", []]]], b"a"), "1 columns for 0 leaves"),
        (forged([1, ["dict", ["a", "a"], [LEAF, LEAF]], []]), "structure is impossible"),
        (forged([1, ["named", "os:system", ["_x"], [LEAF]], []]), "structure is impossible"),
        (forged([1 << 40, ["none"], []]), "rows without leaves"),
        (forged([1 << 40, LEAF, [["dense", "int8", [0]]]]), "which holds nothing"),
        (forged([1, LEAF, [["dense", "int8", [1 << 20, 0, 1 << 20]]]]), "which holds nothing"),
        (forged([1, LEAF, [["bytes", [1 << 20, 0, 1 << 20], 0]]], ints(0)), "which holds nothing"),
        (forged([0, LEAF, [["bytes", [1 << 40], 0]]], ints(0)), "which holds nothing"),
        (forged([1, LEAF, [["ragged", 1 << 30, ["dense", "int8", [0]]]]], ints(0, 1 << 30)), "holds nothing"),
        (
            forged([9, LEAF, [["dense", "int64", []]]], ints(*range(8))),
            "an array of 72 bytes at byte 64 of 128",
        ),
        (forged([1 << 48, LEAF, [["dense", "complex128", [1 << 48] * 8]]]), "an array of"),
        (forged([8, LEAF, [["dense", "int64", []]]], ints(*range(16))), "end at byte 128, the frame at 192"),
        (forged([2, LEAF, [["bytes", [], 3]]], offsets_then(b"abc", 0, 4, 3)), "offsets of 2 rows fall"),
        (forged([2, LEAF, [["bytes", [], 3]]], offsets_then(b"abc", 0, -1, 3)), "offsets of 2 rows fall"),
        (forged([2, LEAF, [["bytes", [], 3]]], offsets_then(b"abc", 1, 2, 3)), "go from 0 to 3"),
        (forged([2, LEAF, [["bytes", [], 3]]], offsets_then(b"abc", 0, 2, 4)), "go from 0 to 3"),
        (forged([2, LEAF, [["bytes", [], 1 << 47]]], offsets_then(b"abc", 0, 2, 1 << 47)), "an array of"),
        (forged([1 << 47, LEAF, [["bytes", [1 << 47], 0]]], ints(0)), "an array of"),
        (
            forged([1, LEAF, [["ragged", 4, ["dense", "int8", []]]]], offsets_then(b"abcd", 0, 5)),
            "go from 0 to 4",
        ),
        (forged([2, LEAF, [["objects", [["dense", "int8", []]]]]], b"a"), "1 objects, the frame 2 rows"),
        (forged([1, LEAF, [["objects", [["objects", []]]]]], b"a"), "header cannot be read"),
    ],
)
def test_a_frame_that_lies_is_refused_with_the_reason(made, message):
    with pytest.raises(CorruptRecord, match=message):
        frame.decode(made)


def test_endless_nesting_is_refused():
    part = ["dense", "int8", []]
    for _ in range(frame.MAX_NESTING + 1):
        part = ["ragged", 0, part]
    with pytest.raises(CorruptRecord, match="nested more than 8"):
        frame.decode(forged([0, LEAF, [part]], ints(0).ljust(64, b"\0") * 20))
    structure = LEAF
    for _ in range(40):
        structure = ["tuple", [structure]]
    with pytest.raises(CorruptRecord, match="structure is impossible"):
        frame.decode(forged([0, structure, [["dense", "int8", []]]]))


@pytest.mark.parametrize("cut", [1, 64, 100])
def test_a_frame_that_is_cut_short_or_followed_by_bytes_is_refused(cut):
    encoded = frame.encode(block_of(RIGHT))
    with pytest.raises(CorruptRecord, match="says that it has"):
        frame.decode(encoded[:-cut])
    with pytest.raises(CorruptRecord, match="says that it has"):
        frame.decode(encoded.tobytes() + b"\0" * cut)


def test_every_flipped_bit_before_the_arrays_is_noticed():
    encoded = frame.encode(block_of(RIGHT))
    header_size = struct.unpack_from("<I", encoded, 16)[0]
    for bit in range(8 * (PREAMBLE + header_size)):
        flipped = encoded.copy()
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptRecord):
            frame.decode(flipped)


mutations = st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=4)


@settings(max_examples=300)
@given(blocks(), mutations, st.booleans())
@example(block_of(RIGHT), [(40, 255)], True)
def test_a_damaged_frame_is_refused_or_gives_a_block_that_can_be_read(block, changes, mend):
    damaged = frame.encode(block)
    header_size = struct.unpack_from("<I", damaged, 16)[0]
    for at, value in changes:
        # Half of them in the header or just behind: in most values nothing can be wrong.
        damaged[at % (PREAMBLE + header_size + 64 if at % 2 else len(damaged)) % len(damaged)] = value
    if mend:
        # With the checksum made right again, what is behind it must notice.
        frame.write_preamble(damaged, header_size, len(damaged))
    try:
        read = frame.decode(damaged)
    except CorruptRecord:
        return
    read_everything(read)


hostile = st.sampled_from(
    [0, 1, 2, 3, 7, 64, 1 << 24, 1 << 48, -1, "int8", "object", [], [0], ["leaf"], None, 0.5]
)


def rewritten(draw, value):
    """The value with one part of it, anywhere, replaced."""
    if isinstance(value, list) and value and draw(st.integers(0, 5)):
        at = draw(st.integers(0, len(value) - 1))
        return [*value[:at], rewritten(draw, value[at]), *value[at + 1 :]]
    return draw(hostile)


@settings(max_examples=300)
@given(blocks(), st.data())
def test_a_rewritten_header_is_refused_or_gives_a_block_that_can_be_read(block, data):
    encoded = frame.encode(block).tobytes()
    header_size = struct.unpack_from("<I", encoded, 16)[0]
    header = msgspec.msgpack.decode(encoded[PREAMBLE : PREAMBLE + header_size])
    body = encoded[-(-(PREAMBLE + header_size) // 64) * 64 :]
    try:
        read = frame.decode(forged(rewritten(data.draw, header), body))
    except CorruptRecord:
        return
    if read.rows < 100_000:  # rows of nothing are bounded, but slow to read one by one
        read_everything(read)

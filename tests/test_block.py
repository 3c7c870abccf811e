"""Blocks hold what they were given, and slice, take and concat agree with doing the same row by row."""

import copy
import pickle
from itertools import pairwise

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from feedline import _native
from feedline.block import Block, Bytes, Objects, Ragged, Sources
from feedline.column import aligned, length, row_of, same, slice_of, take
from feedline.errors import UsageError
from feedline.joining import concat, stack
from feedline.spec import STRING, ArraySpec, ObjectSpec, RaggedSpec, as_leaf, flatten

DTYPES = [
    "bool",
    "int8",
    "uint16",
    "int32",
    "uint64",
    "float16",
    "float64",
    "complex64",
    "complex128",
    "bfloat16",
]


def column_of(dtype, shape=(6,), seed=0):
    bits = np.random.default_rng(seed).integers(0, 2, (*shape, np.dtype(dtype).itemsize), np.uint8)
    return bits.view(dtype)[..., 0]


def same_leaf(one, other):
    return same(stack([one]), stack([other]))


def indices(*values):
    return np.array(values, np.int64)


# --- one column ---


def kinds_of_columns():
    """A column of each kind, 5 rows each."""
    ragged = Ragged(np.arange(9), [0, 2, 2, 5, 5, 9])
    strings = Bytes.of([b"a", b"", b"\xff\x00b", b"dd", b"e"])
    yield "dense", np.arange(5)
    yield "dense rows", np.arange(60).reshape(5, 3, 4)
    yield "no values in a row", np.zeros((5, 0, 3), "float32")
    yield "every second", np.arange(30).reshape(10, 3)[::2]
    yield "backwards", np.arange(15).reshape(5, 3)[::-1]
    yield "transposed", np.arange(15).reshape(3, 5).T
    yield "every second number", np.arange(10, dtype="int16")[::2]
    yield "ragged", ragged
    yield "ragged rows", Ragged(np.arange(27).reshape(9, 3), ragged.offsets)
    yield "ragged of nothing", Ragged(np.zeros((9, 0)), ragged.offsets)
    yield "ragged of strided", Ragged(np.arange(18)[::2], ragged.offsets)
    yield "ragged strings", Ragged([b"%d" % i for i in range(9)], ragged.offsets)
    yield "ragged of ragged", Ragged(Ragged(np.arange(7), [0, 1, 1, 1, 2, 2, 7, 7, 7, 7]), ragged.offsets)
    yield "strings", strings
    yield "tables of strings", Bytes.of([b"%d" % i for i in range(20)], (2, 2))
    yield "tables of no strings", Bytes.of([], (2, 0), rows=5)
    yield "objects", Objects([np.int8(1), b"x", np.arange(3), np.zeros((2, 2)), ragged])
    yield "slice of ragged", slice_of(Ragged(np.arange(20), [0, 3, 5, 5, 8, 11, 20]), 1, 6)
    yield "slice of strings", slice_of(Bytes.of([b"%d" % i for i in range(9)]), 3, 8)
    yield "slice of ragged strings", slice_of(Ragged([b"ab", b"c", b"", b"d"], [0, 1, 2, 2, 3, 4, 4]), 1, 6)


columns = pytest.mark.parametrize(
    "column", [pytest.param(column, id=name) for name, column in kinds_of_columns()]
)


@columns
def test_take_gives_the_rows_that_row_gives(column):
    wanted = [4, 0, 0, 3, 2, 1, 4]
    taken = take(column, indices(*wanted))
    assert length(taken) == 7
    for at, row in enumerate(wanted):
        assert same_leaf(row_of(taken, at), row_of(column, row))


@columns
def test_take_of_nothing_is_empty(column):
    assert length(take(column, indices())) == 0
    assert length(take(slice_of(column, 2, 2), indices())) == 0


@columns
@pytest.mark.parametrize("bad", [-1, 5, 2**40, -(2**63), 2**63 - 1])
def test_take_outside_the_column_is_refused(column, bad):
    with pytest.raises(IndexError, match=f"index {bad} at position 1 is outside the 5 rows"):
        take(column, indices(0, bad, 0))
    with pytest.raises(IndexError):
        take(slice_of(column, 1, 1), indices(0))


@columns
@given(data=st.data())
def test_slices_joined_again_are_the_column(column, data):
    cuts = [0, *sorted(data.draw(st.lists(st.integers(0, 5), max_size=4))), 5]
    joined = concat([slice_of(column, a, b) for a, b in pairwise(cuts)])
    assert length(joined) == 5
    for row in range(5):
        assert same_leaf(row_of(joined, row), row_of(column, row))


@columns
def test_a_slice_shares_memory(column):
    part = slice_of(column, 1, 4)
    if isinstance(column, Objects) or (isinstance(column, np.ndarray) and not column.size):
        return
    for kind in ("_values", "data"):
        if not isinstance(column, np.ndarray) and hasattr(column, kind):
            assert getattr(part, kind) is getattr(column, kind)
    if isinstance(column, np.ndarray):
        assert np.shares_memory(part, column)


@columns
def test_iteration_gives_the_rows(column):
    block = Block(flatten(0)[1], [column], 5)
    rows = list(block)
    assert len(rows) == 5
    for at, row in enumerate(rows):
        assert type(row) is type(block.row(at))
        assert same_leaf(row, block.row(at))


@columns
def test_a_block_and_its_columns_can_be_pickled(column):
    block = Block(flatten({"a": 0})[1], [column], 5)
    assert pickle.loads(pickle.dumps(block)).equals(block)


@columns
def test_rows_stacked_again_are_the_column(column):
    rows = [row_of(column, row) for row in range(5)]
    again = stack(rows)
    for at, row in enumerate(rows):
        assert same_leaf(row_of(again, at), row)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("inner", [(), (1,), (2,), (3, 5), (1000,)])
def test_take_and_concat_agree_with_numpy_for_every_dtype(dtype, inner):
    column = column_of(dtype, (7, *inner))
    column.flags.writeable = False
    wanted = indices(6, 0, 3, 3, 1)
    assert same(take(column, wanted), np.take(column, wanted, axis=0))
    assert same(concat([column, column[:2]]), np.concatenate([column, column[:2]]))


def test_large_takes_agree_with_numpy():
    rng = np.random.default_rng(0)
    for width in (1, 7, 64, 1500):
        column = rng.integers(0, 255, (3000, width), np.uint8)
        wanted = rng.integers(0, 3000, 5000)
        assert same(take(column, wanted), column[wanted])


@given(st.lists(st.lists(st.binary(max_size=4), max_size=3), min_size=1, max_size=8), st.data())
def test_take_of_ragged_strings_agrees_with_tensorflow(rows, data):
    wanted = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=8))
    ragged = tf.ragged.constant(rows, ragged_rank=1, dtype=tf.string)
    ours = Ragged(ragged.values.numpy(), ragged.row_splits.numpy())
    theirs = tf.gather(ragged, np.array(wanted, np.int64))
    assert take(ours, indices(*wanted)).to_list() == theirs.to_list()


@pytest.mark.parametrize(
    ("parts", "kind"),
    [
        ([np.zeros((2, 3)), np.ones((1, 3))], np.ndarray),
        ([np.zeros((2, 3)), np.ones((1, 4))], Ragged),
        ([np.zeros((2, 3)), Ragged(np.ones(2), [0, 2, 2])], Ragged),
        ([np.zeros((2, 3, 2)), np.ones((1, 4, 2))], Ragged),
        ([np.zeros((2, 3, 2)), np.ones((1, 3, 4))], Objects),
        ([np.zeros(2), np.zeros(2, "int8")], Objects),
        ([np.zeros(2), np.zeros((2, 1))], Objects),
        ([Bytes.of([b"a"]), Bytes.of([b"b", b"c"])], Bytes),
        ([Bytes.of([b"a"]), np.zeros(2)], Objects),
        ([Bytes.of([b"a", b"b"], (2,)), Bytes.of([b"c"], (1,))], Ragged),
        ([Bytes.of([b"a", b"b"], (2,)), Ragged([b"c"], [0, 0, 1])], Ragged),
        ([Ragged(np.zeros(2), [0, 2]), Ragged(np.zeros(2, "int8"), [0, 2])], Objects),
        ([Ragged(Ragged(np.zeros(2), [0, 2]), [0, 1]), np.zeros((1, 1, 2))], Objects),
        ([Objects([]), np.zeros(2)], np.ndarray),
        ([Objects([]), Objects([])], Objects),
        ([Objects([b"a"]), np.zeros(2)], Objects),
    ],
    ids=str,
)
def test_concat_finds_the_tightest_column_and_keeps_the_rows(parts, kind):
    joined = concat(parts)
    assert type(joined) is kind
    rows = [row_of(part, row) for part in parts for row in range(length(part))]
    assert length(joined) == len(rows)
    for at, row in enumerate(rows):
        assert same_leaf(row_of(joined, at), row)


@pytest.mark.parametrize(
    ("leaves", "kind"),
    [
        ([1, 2], np.ndarray),
        ([np.zeros((2, 2)), np.ones((2, 2))], np.ndarray),
        ([np.zeros((0, 2)), np.ones((0, 2))], np.ndarray),
        ([np.zeros((0, 2)), np.ones((3, 2))], Ragged),
        ([np.zeros((1, 2)), np.ones((1, 3))], Objects),
        ([np.zeros(1), np.ones(1, "float32")], Objects),
        ([np.array(1.0), np.float64(2)], np.ndarray),
        ([1, 2.5], Objects),
        (["a", b"bc"], Bytes),
        ([["a", "b"], ["c", "d"]], Bytes),
        ([["a", "b"], ["c"]], Ragged),
        ([[["a"], ["b"]], [["c"]]], Ragged),
        (["a", 1], Objects),
        ([["a"], "b"], Objects),
        ([Ragged([1, 2], [0, 2]), Ragged([3], [0, 1, 1])], Ragged),
        ([Ragged([1, 2], [0, 2]), Ragged([3.5], [0, 1, 1])], Objects),
        ([Ragged([1, 2], [0, 2]), np.zeros((1, 2), "int32")], Objects),
        ([..., ...], Objects),
        ([], Objects),
    ],
    ids=str,
)
def test_from_rows_finds_the_tightest_column(leaves, kind):
    block = Block.from_rows(flatten(0)[1], [[leaf] for leaf in leaves])
    assert type(block.columns[0]) is kind
    assert block.rows == len(leaves)
    for at, leaf in enumerate(leaves):
        assert same_leaf(block.row(at), as_leaf(leaf))


def test_results_are_aligned_and_come_from_the_pool():
    block = Block.from_elements(
        [{"a": np.float32(i), "b": np.arange(i % 3, dtype="float32")} for i in range(9)]
    )
    for made in (block, block.take([3, 1, 4]), Block.concat([block, block])):
        batch = made.as_batch()
        for array in (batch["a"], batch["b"].values):
            assert array.__array_interface__["data"][0] % 64 == 0
    assert block.slice(3, 7).as_batch()["a"].tolist() == [3, 4, 5, 6]
    assert block.slice(3, 7).as_batch()["a"].__array_interface__["data"][0] % 64 == 0


def test_what_is_aligned_is_not_copied():
    block = Block(flatten(0)[1], [_native.empty(4096).view("float32").reshape(64, 16)], 64)
    assert np.shares_memory(block.slice(8, 16).as_batch(), block.columns[0])
    strided = aligned(block.columns[0][:, ::2])
    assert strided.flags.c_contiguous
    assert same(strided, block.columns[0][:, ::2])


# --- blocks against tf.data ---

rows_of_features = st.lists(
    st.fixed_dictionaries(
        {
            "label": st.integers(-(2**31), 2**31 - 1).map(np.int32),
            "name": st.binary(max_size=5),
            "image": st.integers(0, 255).map(lambda v: np.full((2, 3), v, np.uint8)),
            "words": st.tuples(st.text(max_size=3), st.text(max_size=3)).map(
                lambda w: np.array([s.encode() for s in w], object)
            ),
        }
    ),
    min_size=1,
    max_size=6,
)


@given(rows_of_features)
def test_rows_and_batches_are_those_of_tf_data(rows):
    columns = {key: [row[key] for row in rows] for key in rows[0]}
    dataset = tf.data.Dataset.from_tensor_slices(
        {k: tf.stack([tf.constant(one) for one in v]) for k, v in columns.items()}
    )
    block = Block.from_elements(rows)

    for ours, theirs in zip(block, dataset.as_numpy_iterator(), strict=True):
        assert list(ours) == list(rows[0])
        for key, leaf in theirs.items():
            assert type(ours[key]) is type(leaf)
            assert getattr(ours[key], "dtype", None) == getattr(leaf, "dtype", None)
            np.testing.assert_array_equal(ours[key], leaf)

    (theirs,) = dataset.batch(len(rows)).as_numpy_iterator()
    for key, leaf in block.as_batch().items():
        assert leaf.dtype == theirs[key].dtype
        np.testing.assert_array_equal(leaf, theirs[key])


def test_spec_is_what_all_rows_fit():
    block = Block.from_elements(
        [
            {
                "a": np.float32(1),
                "b": [1, 2],
                "c": "x",
                "d": np.zeros((1, 2)),
                "e": Ragged([1], [0, 1]),
                "f": 1,
            },
            {
                "a": np.float32(1),
                "b": [1],
                "c": "x",
                "d": np.zeros((2, 1)),
                "e": Ragged([1], [0, 1, 1]),
                "f": "a",
            },
        ]
    )
    i32 = np.dtype("int32")
    assert block.spec == {
        "a": ArraySpec((), np.dtype("float32")),
        "b": ArraySpec((None,), i32),
        "c": ArraySpec((), STRING),
        "d": ArraySpec((None, None), np.dtype("float64")),
        "e": RaggedSpec((None, None), i32),
        "f": ObjectSpec(),
    }


def test_nbytes_counts_what_the_rows_need_only():
    block = Block.from_elements([([1.0] * i, "x" * i) for i in range(10)])
    assert block.nbytes == 45 * 4 + 11 * 8 + 45 + 11 * 8
    assert block.slice(2, 3).nbytes == 2 * 4 + 2 * 8 + 2 + 2 * 8


def test_a_block_without_leaves_still_has_rows():
    block = Block(flatten(())[1], [], 3)
    assert list(block) == [(), (), ()]
    assert block.take([2, 0]).rows == 2
    assert Block.concat([block, block]).rows == 6
    assert block.slice(1, 3).rows == 2
    with pytest.raises(UsageError, match="index 3"):
        block.take([3])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda b: b.take([0, -1]), "index -1 at position 1 is outside the 2 rows; rows are counted from 0"),
        (lambda b: b.take([0.5]), "must be integers"),
        (lambda b: b.take([True, False]), "must be integers"),
        (lambda b: b.take([[0]]), "one dimension"),
        (lambda b: b.take(np.array([2**64 - 1], np.uint64)), "index -1 at position 0"),
        (lambda b: b.slice(1, 3), r"slice\(1, 3\)"),
        (lambda b: b.slice(-1, 1), r"slice\(-1, 1\)"),
        (lambda b: b.slice(2, 1), r"slice\(2, 1\)"),
        (lambda b: b.row(2), r"row\(2\)"),
        (lambda b: b.row(-1), r"row\(-1\)"),
        (lambda b: Block.concat([]), "without a block"),
        (lambda b: Block.concat([b, Block.from_elements([{"y": 1}])]), "does not fit"),
        (lambda b: Block.from_elements([]), "without an element"),
        (lambda b: Block.from_elements([{"x": 1}, {"x": 1, "y": 2}]), "another structure"),
        (lambda b: Block.from_rows(b.structure, [[1, 2]]), "has 1 leaves, not 2"),
        (lambda b: Block(b.structure, [], 2), "1 leaves, not 0 columns"),
        (lambda b: Block(b.structure, b.columns, 3), r'element\["x"\]: the column has 2 rows, the block 3'),
        (lambda b: Block(b.structure, [np.array(1)], 2), r'element\["x"\]: a column needs a first axis'),
        (lambda b: Block(b.structure, [np.array([b"a"], object)], 1), "held in a Bytes column"),
        (lambda b: Block(b.structure, [np.zeros(2, "M8[s]")], 2), r'element\["x"\]: dtype .*dates'),
        (lambda b: Block(b.structure, [[1, 2]], 2), "list is no column"),
    ],
)
def test_misuse_is_refused_with_a_reason(call, message):
    with pytest.raises(UsageError, match=message):
        call(Block.from_elements([{"x": 1}, {"x": 2}]))


# --- Ragged ---


@pytest.mark.parametrize(
    ("values", "offsets", "message"),
    [
        ([1, 2], [1, 2], "start at 0, not 1"),
        ([1, 2], [0, 2, 1, 2], "offset 2 is 1 after 2"),
        ([1, 2], [0, 1], "number of values, 2, not 1"),
        ([1, 2], [0, 3], "number of values, 2, not 3"),
        ([1, 2], [0, -1, 2], "never fall"),
        ([1, 2], [], "one more than there are rows"),
        ([1, 2], [[0, 2]], "one dimension"),
        ([1, 2], [0.0, 2.0], "integers"),
        (5, [0, 1], "one dimension at least"),
        (b"ab", [0, 2], "one dimension at least, or a Ragged, not bytes"),
        ([[1], [2, 3]], [0, 2], "different lengths"),
        (..., [0], "not ellipsis"),
    ],
    ids=str,
)
def test_ragged_refuses_what_does_not_fit(values, offsets, message):
    with pytest.raises(UsageError, match=message):
        Ragged(values, offsets)


ragged_lists = st.lists(st.lists(st.integers(-5, 5), max_size=4), max_size=6)


def ragged_of(rows):
    lengths = [len(row) for row in rows]
    return Ragged(np.array([v for row in rows for v in row], np.int64), np.cumsum([0, *lengths]))


@given(ragged_lists, st.data())
def test_slices_of_a_ragged_look_as_if_they_were_made_anew(rows, data):
    a = data.draw(st.integers(0, len(rows)))
    b = data.draw(st.integers(a, len(rows)))
    part, anew = ragged_of(rows)[a:b], ragged_of(rows[a:b])
    assert part.to_list() == rows[a:b]
    np.testing.assert_array_equal(part.offsets, anew.offsets)
    np.testing.assert_array_equal(part.values, anew.values)
    np.testing.assert_array_equal(part.lengths, anew.lengths)
    assert part.equals(anew)
    assert part.spec == anew.spec
    assert repr(part) == repr(anew)
    assert pickle.loads(pickle.dumps(part)).equals(anew)
    assert ragged_of(rows)[::-2].to_list() == rows[::-2]


@given(ragged_lists.filter(bool))
def test_to_dense_pads_as_tensorflow_does(rows):
    theirs = tf.ragged.constant(rows, ragged_rank=1, dtype=tf.int64)
    np.testing.assert_array_equal(ragged_of(rows).to_dense(), theirs.to_tensor().numpy())
    np.testing.assert_array_equal(ragged_of(rows).to_dense(-1), theirs.to_tensor(-1).numpy())


@given(st.lists(ragged_lists, min_size=1, max_size=4))
def test_nested_raggeds_agree_with_tensorflow(rows):
    theirs = tf.ragged.constant(rows, ragged_rank=2, dtype=tf.int64)
    ours = Ragged(ragged_of([row for rows_ in rows for row in rows_]), np.cumsum([0, *map(len, rows)]))
    assert ours.to_list() == rows
    assert ours[0].to_list() == rows[0]
    np.testing.assert_array_equal(ours.to_dense(7), theirs.to_tensor(7).numpy())
    assert ours.spec == RaggedSpec((len(rows), None, None), np.dtype("int64"), 2)
    np.testing.assert_array_equal(ours[1:].to_dense(), theirs[1:].to_tensor().numpy())


def test_ragged_strings_come_as_bytes():
    words = Ragged(["a", "bc", "d"], [0, 2, 2, 3])
    assert words.values.tolist() == [b"a", b"bc", b"d"]
    assert words[0].tolist() == [b"a", b"bc"]
    assert words.to_dense().tolist() == [[b"a", b"bc"], [b"", b""], [b"d", b""]]
    assert words.to_dense(b"-").tolist()[1] == [b"-", b"-"]
    assert repr(words) == "<Ragged string, 3 rows: [[b'a', b'bc'], [], [b'd']]>"


def test_ragged_indexes_like_a_sequence():
    ragged = ragged_of([[1], [2, 3]])
    assert ragged[-1].tolist() == [2, 3]
    assert [row.tolist() for row in ragged] == [[1], [2, 3]]
    for outside in (2, -3):
        with pytest.raises(IndexError):
            ragged[outside]


def test_ragged_shows_only_the_beginning_of_much():
    text = repr(Ragged(Ragged(np.arange(10_000), np.arange(0, 10_001, 10)), np.arange(0, 1001, 10)))
    assert text.startswith("<Ragged int64, 100 rows: [[[0, 1, 2, 3, 4, 5, ...], [10,")
    assert len(text) < 1000


def test_equality_is_of_bits():
    nan = Ragged(np.array([np.nan]), [0, 1])
    assert nan.equals(Ragged(np.array([np.nan]), [0, 1]))
    assert not nan.equals(Ragged(np.array([np.nan]), [0, 0, 1]))
    assert not nan.equals(Ragged(np.array([np.nan], "float32"), [0, 1]))
    assert not nan.equals(5)


def test_bfloat16_rows_are_scalars_of_their_type():
    block = Block.from_elements([ml_dtypes.bfloat16(1.5), ml_dtypes.bfloat16(2)])
    assert type(block.row(0)) is ml_dtypes.bfloat16
    assert block.take([1]).as_batch().tolist() == [2.0]


# --- the native functions do not trust their caller ---


@pytest.mark.parametrize("offsets", [[0, 9], [-1, 1], [2, 1], [0, 2**62], [-(2**63), 2**63 - 1], [5, 5]])
def test_offsets_that_lie_are_noticed_before_they_are_used(offsets):
    data = np.zeros(4, np.uint8)
    for call in (
        lambda: _native.gather_ranges(data, 1, indices(*offsets), indices(0)),
        lambda: _native.gather_positions(4, indices(*offsets), indices(0)),
        lambda: _native.byte_strings(data, indices(*offsets)),
    ):
        with pytest.raises(ValueError, match="falls or runs past"):
            call()


def test_a_hundred_million_fold_take_of_a_long_row_is_out_of_memory_and_not_a_wrap():
    with pytest.raises(MemoryError):
        _native.gather_positions(2**62, indices(0, 2**62), indices(*[0] * 4))


@pytest.mark.parametrize("use", ["columns", "slice", "take", "copied", "dropped"])
def test_rows_whose_copying_was_begun_are_the_picked_ones(use):
    rows = np.arange(40_000, dtype=np.float32).reshape(-1, 4)
    order = np.random.default_rng(1).permutation(len(rows))
    block = picked(Block.from_elements(list(rows)), order)
    block.begin()
    if use == "columns":
        assert np.array_equal(block.columns[0], rows[order])
        assert block.columns[0] is block.columns[0]
    elif use == "slice":
        assert np.array_equal(block.slice(5, 9000).columns[0], rows[order][5:9000])
    elif use == "take":
        assert np.array_equal(block.take([3, 1]).columns[0], rows[order][[3, 1]])
    elif use == "copied":
        assert np.array_equal(block.copied().columns[0], rows[order])


def test_columns_that_are_not_dense_are_copied_when_they_are_looked_at():
    block = picked(Block.from_elements([b"a", b"bc", b"d"]), np.array([2, 0]))
    block.begin()
    assert list(block) == [b"d", b"a"]


def picked(block, rows):
    sources = Sources()
    return sources.pick(sources.add(block)[rows])


@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.bool_, np.complex128])
@pytest.mark.parametrize("size", [5 << 20, (5 << 20) + 7])
def test_large_arrays_are_copied_whole(dtype, size):
    values = np.random.default_rng(0).integers(0, 2, (2, size)).astype(dtype)
    joined = Block.from_elements([values[0], values[1]]).columns[0]
    assert np.array_equal(joined, values)
    apart = Block.from_elements([values[0, ::2], values[1, ::2]]).columns[0]
    assert np.array_equal(apart, values[:, ::2])


@pytest.mark.parametrize(
    "item", [np.zeros(2), np.float32(1), b"a", np.array([b"a", b""], object), "text", {1}]
)
def test_objects_are_the_same_when_their_items_are(item):
    assert same(Objects([item, 1]), Objects([copy.deepcopy(item), 1]))
    for another in (np.zeros(3), np.float64(1), b"b", np.array([b"a", b"b"], object), object()):
        assert not same(Objects([item]), Objects([another]))

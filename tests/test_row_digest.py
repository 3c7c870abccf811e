"""Equal rows have equal digests, however they are cut into blocks and whichever columns hold them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedline import Dataset, Ragged
from feedline.block import Block
from feedline.row_digest import RowDigest

KINDS = {
    "scalars": lambda n: np.int64(n),
    "arrays of one shape": lambda n: np.full((2, 3), n, np.float32),
    "arrays of changing length": lambda n: np.arange(n % 4),
    "arrays that share no number of dimensions": lambda n: np.zeros((1,) * (n % 3), np.int32),
    "strings": lambda n: b"x" * (n % 5),
    "arrays of strings": lambda n: np.array([b"a" * n, b"b"], object),
    "lists of strings of changing length": lambda n: np.array([b"a"] * (n % 3) + [b""], object),
    "ragged": lambda n: Ragged(np.arange(4), [0, n % 4, 4]),
    "trees": lambda n: {"a": (np.uint8(n), b"%d" % n), "b": None},
    "objects": lambda n: Dataset.range(n),
}


def digest(blocks, before=b""):
    rows = RowDigest(before)
    for block in blocks:
        rows.add(block)
    return rows.digest()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "objects"])
@given(cuts=st.lists(st.integers(0, 24)))
def test_it_does_not_depend_on_the_blocks(kind, cuts):
    elements = [KINDS[kind](n) for n in range(24)]
    whole = Block.from_elements(elements)
    bounds = [0, *sorted(cuts), 24]
    ranges = [(a, b) for a, b in pairwise(bounds) if a < b]
    assert digest(whole.slice(a, b) for a, b in ranges) == digest([whole])
    assert digest(Block.from_elements(elements[a:b]) for a, b in ranges) == digest([whole])


@pytest.mark.parametrize("kind", KINDS)
def test_it_tells_other_rows_apart(kind):
    numbers = [*range(12), 12]
    elements = [KINDS[kind](n) for n in numbers]
    others = [
        elements[:-1],
        [*elements[1:], elements[0]],
        [*elements, elements[-1]],
        [KINDS[kind](n + 1) for n in numbers],
    ]
    digests = {digest([Block.from_elements(rows)]) for rows in (elements, *others)}
    assert len(digests) == 5


def test_rows_before_and_the_structure_count():
    block = Block.from_elements([np.int64(1), np.int64(2)])
    assert digest([block], b"before") != digest([block])
    assert digest([Block.from_elements([(np.int64(1),), (np.int64(2),)])]) != digest([block])
    assert digest([]) != digest([block])


def test_shapes_count_where_the_bytes_are_the_same():
    rows = [np.zeros((2, 3)), np.zeros((3, 2)), np.zeros(6), np.zeros(6, np.int64)]
    assert len({digest([Block.from_elements([row])]) for row in rows}) == 4


def test_an_object_that_is_no_array_is_like_nothing_else():
    block = Block.from_elements([Dataset.range(3)])
    assert digest([block]) != digest([block])

"""The digest of a large array is taken once, and again when the array has changed."""

from __future__ import annotations

import gc
import hashlib

import numpy as np
import pytest

from feedline import Dataset, Ragged
from feedline.graph.fingerprint import objects, remembered
from feedline.graph.fingerprint.remembered import digest_of_array

ROWS = 1 << 18  # of 8 bytes: large enough to be remembered


@pytest.fixture
def hashed(monkeypatch):
    """The sizes of all large values that digests were taken of."""
    sizes = []

    def counted(data):
        sizes.append(len(data))
        return objects.digest(data)

    monkeypatch.setattr(remembered, "digest", counted)
    return sizes


def read_only(array):
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    "dataset",
    [
        Dataset.from_tensor_slices(np.arange(ROWS)),
        Dataset.from_tensor_slices(read_only(np.arange(ROWS))),
        Dataset.from_tensor_slices(np.arange(4 * ROWS).reshape(ROWS, 4)[:, ::2]),
        Dataset.from_tensors(np.arange(ROWS)),
        Dataset.from_tensor_slices(Ragged(np.arange(ROWS), np.array([0, 5, ROWS]))),
        Dataset.from_tensor_slices(np.array([b"x" * ROWS, b"y" * 9 * ROWS], object)),
    ],
    ids=["array", "read-only", "with gaps", "whole", "ragged", "strings"],
)
def test_a_large_array_of_a_node_is_hashed_once(dataset, hashed):
    first = dataset.batch(2).fingerprint()
    assert sum(size >= 1 << 20 for size in hashed) == 1
    hashed.clear()
    for _ in range(3):
        assert dataset.batch(2).fingerprint() == first
    assert all(size < 1 << 20 for size in hashed)


def test_what_cannot_change_is_not_even_read_again(monkeypatch):
    dataset = Dataset.from_tensor_slices(read_only(np.arange(ROWS)))
    first = dataset.fingerprint()
    monkeypatch.setattr(remembered, "_bytes", None)
    assert dataset.fingerprint() == first


@pytest.mark.parametrize("at", [0, 1, ROWS // 2, ROWS - 1])
def test_an_array_that_its_owner_changes_is_another(at):
    """A node shows it read-only, but the memory is the user's."""
    array = np.arange(ROWS)
    dataset = Dataset.from_tensor_slices(array)
    first = dataset.fingerprint()
    array[at] += 1
    changed = dataset.fingerprint()
    assert changed != first
    assert changed == Dataset.from_tensor_slices(array.copy()).fingerprint()
    array[at] -= 1
    assert dataset.fingerprint() == first


def test_an_array_that_became_writable_again_is_read_again():
    array = read_only(np.arange(ROWS))
    first = digest_of_array(array)
    array.flags.writeable = True
    assert digest_of_array(array) == first
    array[7] = 0
    assert digest_of_array(array) != first


def test_a_file_in_memory_that_changes_is_another(tmp_path):
    path = tmp_path / "rows.npy"
    np.save(path, np.arange(ROWS))
    shown = np.load(path, mmap_mode="r")
    dataset = Dataset.from_tensor_slices(shown)
    first = dataset.fingerprint()
    written = np.load(path, mmap_mode="r+")
    written[5] = 0
    written.flush()
    assert dataset.fingerprint() != first


def test_views_of_one_array_are_told_apart():
    array = np.arange(4 * ROWS)
    views = [array[:ROWS], array[1 : ROWS + 1], array[::2], array[::-1], array.view(np.float64)]
    for _ in range(2):
        for view in views:
            wanted = hashlib.blake2b(np.ascontiguousarray(view).tobytes(), digest_size=10).hexdigest()
            assert digest_of_array(view) == wanted


def test_an_array_that_is_gone_is_forgotten():
    gc.collect()
    before = len(remembered._owners)
    array = np.arange(ROWS)
    first = digest_of_array(array)
    assert len(remembered._owners) == before + 1
    del array
    gc.collect()
    assert len(remembered._owners) == before
    # One that lies at the same place, as it often does, is not taken for it.
    assert digest_of_array(np.arange(ROWS) + 1) != first

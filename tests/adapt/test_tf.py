"""to_tf."""

import gc
import threading
import time

import numpy as np
import pytest

import feedline as fl
from feedline.adapt.tf import from_runs
from feedline.block import Block
from feedline.column import aligned
from feedline.structure import flatten
from feedline.testing import assert_same
from tests.ops.sources import SOURCES
from tests.tfdata import check_spec, numpy_elements

tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed")


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("batched", [False, True])
def test_tensorflow_gets_the_same_elements_with_their_spec_and_number(name, batched):
    ours = SOURCES[name]
    if batched:
        if name.startswith("changing"):
            pytest.skip("they make no batches")
        ours = ours.batch(2)
    theirs = ours.to_tf()
    assert int(theirs.cardinality()) == ours.cardinality()
    assert_same(list(numpy_elements(theirs)), list(ours))
    if name != "none at all":
        check_spec(without_rank_0(ours.element_spec), theirs.element_spec)


def without_rank_0(spec):
    """A row of a Ragged has a spec of rank 0, and is a plain tensor."""
    leaves, structure = fl.spec.flatten(spec)
    plain = [
        fl.spec.ArraySpec(leaf.shape, leaf.dtype) if getattr(leaf, "ragged_rank", 1) == 0 else leaf
        for leaf in leaves
    ]
    return structure.unflatten(plain)


def test_infinite_and_unknown_lengths_are_told():
    assert int(fl.Dataset.range(3).repeat().to_tf().cardinality()) == fl.INFINITE_CARDINALITY
    assert int(fl.Dataset.range(3).filter(lambda x: True).to_tf().cardinality()) == fl.UNKNOWN_CARDINALITY


def test_batches_of_a_fixed_size_have_it_in_their_spec():
    ragged = fl.Ragged(np.arange(6), [0, 2, 2, 6])
    spec = fl.Dataset.from_tensor_slices((ragged, ["a", "b", "c"])).batch(2, drop_remainder=True).to_tf()
    assert spec.element_spec == (
        tf.RaggedTensorSpec([2, None], tf.int64, 1, tf.int64),
        tf.TensorSpec([2], tf.string),
    )


def address(tensor):
    return np.asarray(memoryview(tensor)).ctypes.data


# Elements of 16 KB cross in groups, those of 160 KB one by one.
@pytest.mark.parametrize("size", [2000, 20_000])
def test_aligned_arrays_are_not_copied(size):
    rows = aligned(np.arange(200 * size).reshape(200, size))
    block = Block(flatten(0)[1], [rows], 200)
    dataset = fl.Dataset.from_tensor_slices(rows)
    tensors = list(from_runs(tf, dataset, dataset.element_spec, lambda: (yield block)))
    assert [address(tensor) for tensor in tensors] == [row.ctypes.data for row in rows]


def test_the_values_of_aligned_ragged_arrays_are_not_copied():
    ragged = fl.Ragged(aligned(np.arange(2000)), [0, 10, 2000])
    block = Block(flatten(0)[1], [fl.Ragged(ragged, [0, 2])], 1)
    dataset = fl.Dataset.from_tensors(ragged)
    tensors = list(from_runs(tf, dataset, dataset.element_spec, lambda: (yield block)))
    assert [address(tensor.flat_values) for tensor in tensors] == [ragged.values.ctypes.data]


def test_an_element_does_not_wait_for_the_next_one():
    got = threading.Semaphore(0)
    in_time = []

    def waits():
        for number in range(4):
            time.sleep(0.2)  # longer than elements are gathered for a block
            yield np.int64(number)
            in_time.append(got.acquire(timeout=200))

    dataset = fl.Dataset.from_generator(waits, output_signature=fl.spec.ArraySpec((), "int64")).to_tf()
    for _ in dataset:
        got.release()
    assert in_time == [True] * 4


def test_batches_that_share_the_users_array_reach_tensorflow_whole():
    array = np.arange(3000, dtype="float32")[1:].reshape(-1, 1)  # not aligned
    found = [t.numpy() for t in fl.Dataset.from_tensor_slices(array).batch(100).to_tf()]
    np.testing.assert_array_equal(np.concatenate(found), array)


def test_memory_is_still_there_after_the_iteration():
    tensors = list(fl.Dataset.range(20_000).shuffle(seed=1).batch(1000).to_tf())
    for _ in fl.Dataset.range(20_000).shuffle(seed=2).batch(1000):
        pass  # takes what the pool has
    assert sorted(np.concatenate([t.numpy() for t in tensors])) == list(range(20_000))


def test_every_epoch_is_an_iteration_of_its_own():
    dataset = fl.Dataset.range(20).shuffle(seed=1).to_tf()
    epochs = [[int(x) for x in dataset] for _ in range(3)]
    assert len({tuple(epoch) for epoch in epochs}) == 3
    assert all(sorted(epoch) == list(range(20)) for epoch in epochs)
    repeated = [int(x) for x in dataset.repeat(2)]
    assert sorted(repeated) == sorted([*range(20), *range(20)])


def test_two_iterations_at_once_do_not_mix():
    dataset = fl.Dataset.range(5).to_tf()
    assert [(int(a), int(b)) for a, b in zip(dataset, dataset, strict=True)] == [(i, i) for i in range(5)]


def test_the_iterator_is_closed_when_tensorflow_drops_its_own():
    closed = []

    def endless():
        try:
            while True:
                yield np.int64(1)
        finally:
            closed.append(True)

    dataset = fl.Dataset.from_generator(endless).to_tf()
    del closed[:]  # what was looked at for the spec
    elements = iter(dataset)
    next(elements)
    assert not closed
    del elements
    gc.collect()
    until = time.monotonic() + 30
    while not closed and time.monotonic() < until:
        time.sleep(0.01)
    assert closed


def test_an_error_of_a_users_function_arrives_with_its_step():
    dataset = fl.Dataset.range(20).map(lambda x: 1 // (x - 17) if x > 16 else 1).to_tf()
    with pytest.raises(tf.errors.OpError, match=r"map, added at .*test_tf\.py"), np.errstate(all="raise"):
        list(dataset)


def test_what_tensorflow_has_no_tensors_for_is_refused_by_name():
    with pytest.raises(fl.UsageError, match=r"(?s)to_tf\(\): element is no array.*flat_map"):
        fl.Dataset.range(5).window(2).to_tf()

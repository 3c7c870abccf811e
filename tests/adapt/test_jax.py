"""to_jax."""

import numpy as np
import pytest

import feedline as fl
from feedline.column import aligned
from tests.adapt.fresh import run

jax = pytest.importorskip("jax", reason="JAX is not installed")


def test_elements_are_trees_of_device_arrays():
    dataset = fl.Dataset.from_tensor_slices({"x": (np.ones((4, 3), "float32"), None), "y": np.arange(4)})
    elements = list(dataset.batch(2).to_jax())
    assert len(elements) == 2
    assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(elements))
    assert elements[1]["x"][1] is None
    np.testing.assert_array_equal(elements[1]["y"], [2, 3])


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7])
def test_all_elements_come_in_order_and_again_in_the_next_iteration(count):
    elements = fl.Dataset.range(count).to_jax()
    assert len(elements) == count
    for _ in range(2):
        assert [int(x) for x in elements] == list(range(count))


def test_two_elements_are_put_on_the_device_ahead_and_no_more():
    given = []

    def counted():
        for number in range(10):
            given.append(number)
            yield np.full(4 << 20, number, np.uint8)  # a block each: feedline reads a block at a time

    elements = iter(fl.Dataset.from_generator(counted).to_jax())
    assert int(next(elements)[0]) == 0
    assert 3 <= len(given) <= 5
    elements.close()


def test_aligned_memory_is_shared():
    array = aligned(np.ones((1, 1000), "float32"))
    (found,) = fl.Dataset.from_tensor_slices(array).to_jax()
    assert found.unsafe_buffer_pointer() == array.ctypes.data


def test_what_jax_does_not_have_is_refused_by_name():
    with pytest.raises(fl.UsageError, match=r"(?s)to_jax\(\): element\[1\] is strings.*map"):
        list(fl.Dataset.from_tensors((1, "a")).to_jax())
    with pytest.raises(fl.UsageError, match=r"(?s)element is Ragged.*padded_batch"):
        list(fl.Dataset.from_tensors(fl.Ragged(np.arange(3), [0, 1, 3])).to_jax())


SHARDED = """
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
import feedline as fl

assert len(jax.devices()) == 4
mesh = Mesh(jax.devices(), "data")
rows = NamedSharding(mesh, PartitionSpec("data"))
x = np.arange(24, dtype="float32").reshape(12, 2)
dataset = fl.Dataset.from_tensor_slices((x, np.arange(12))).batch(8)
first = next(iter(dataset.to_jax(rows)))
assert first[0].sharding == rows
assert [shard.data.shape for shard in first[0].addressable_shards] == [(2, 2)] * 4
np.testing.assert_array_equal(first[0], x[:8])
both = next(iter(dataset.to_jax((rows, NamedSharding(mesh, PartitionSpec())))))
assert both[1].sharding.is_fully_replicated and not both[0].sharding.is_fully_replicated
try:
    list(fl.Dataset.range(10).batch(8).to_jax(rows))
except fl.UsageError as error:
    assert "element 1 does not fit" in str(error) and "drop_remainder=True" in str(error), error
else:
    raise AssertionError("two rows went onto four devices")
"""


def test_elements_are_sharded_over_devices():
    run("-c", SHARDED, XLA_FLAGS="--xla_force_host_platform_device_count=4", JAX_PLATFORMS="cpu")


FROM_JAX = """
import sys
import feedline as fl
def refused():
    try:
        fl.Dataset.range(3).shard()
    except fl.UsageError as error:
        return "nothing says" in str(error)
assert refused() and "jax" not in sys.modules
import jax
assert refused()
jax.distributed.initialize(f"127.0.0.1:{sys.argv[1]}", num_processes=1, process_id=0)
assert [int(x) for x in fl.Dataset.range(3).shard()] == [0, 1, 2]
jax.distributed.shutdown()
"""


def test_shard_asks_jax_only_where_it_was_initialised(free_port):
    run("-c", FROM_JAX, free_port(), JAX_PLATFORMS="cpu")

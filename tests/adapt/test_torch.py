"""to_torch."""

import ml_dtypes
import numpy as np
import pytest

import feedline as fl
from feedline import _native
from tests.adapt.fresh import output, start

torch = pytest.importorskip("torch", reason="torch is not installed")
DataLoader = torch.utils.data.DataLoader

# A DataLoader forks. Python says so where there are threads, and JAX where another test imported it.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:os.fork.. was called:RuntimeWarning"),
]


def numbers(loader):
    return [int(x) for x in loader]


def test_elements_are_trees_of_tensors_and_strings_stay_strings():
    dataset = fl.Dataset.from_tensor_slices({"x": (np.ones((2, 3), "float32"), None), "name": ["a", "b"]})
    first = next(iter(dataset.to_torch()))
    assert first.keys() == {"x", "name"}
    assert torch.equal(first["x"][0], torch.ones(3))
    assert first["x"][1] is None
    assert first["name"] == b"a"


@pytest.mark.parametrize(
    "dtype",
    [
        *("bool", "int8", "uint16", "uint32", "uint64", "float16", "float64", "complex64"),
        *(ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2),
    ],
)
def test_dtypes_and_values_are_kept(dtype):
    array = np.arange(4).astype(dtype)
    (found,) = fl.Dataset.from_tensors(array).to_torch()
    assert str(found.dtype) == f"torch.{array.dtype.name}"
    np.testing.assert_array_equal(found.to(torch.complex64).numpy(), array.astype("complex64"))


def test_writable_memory_is_shared_and_the_users_own_is_not():
    dataset = fl.Dataset.range(1000).shuffle(seed=1).batch(1000)
    seen = []
    tensors = list(dataset.map(lambda x: seen.append(x) or x).to_torch())
    assert seen
    array = next(iter(dataset))
    assert array.flags.writeable
    assert as_tensor(array).data_ptr() == array.ctypes.data
    own = np.arange(10)
    (tensor,) = fl.Dataset.from_tensor_slices(own).batch(10).to_torch()
    tensor[0] = 99
    assert own[0] == 0
    assert len(tensors) == 1


def as_tensor(array):
    from feedline.adapt.torch import as_tensors

    return as_tensors(torch, array)


def test_what_torch_does_not_have_is_refused_by_name():
    ragged = fl.Ragged(np.arange(3), [0, 1, 3])
    with pytest.raises(fl.UsageError, match=r'(?s)to_torch\(\): element\["r"\] is Ragged.*padded_batch'):
        list(fl.Dataset.from_tensors({"r": ragged}).to_torch())
    with pytest.raises(fl.UsageError, match="element is int4, which torch does not have"):
        list(fl.Dataset.from_tensors(np.zeros(2, ml_dtypes.int4)).to_torch())


def test_the_length_is_told_where_it_is_known():
    assert len(fl.Dataset.range(7).to_torch()) == 7
    for endless in (fl.Dataset.range(7).repeat(), fl.Dataset.range(7).filter(lambda x: True)):
        assert not hasattr(endless.to_torch(), "__len__")


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_of_a_dataloader_share_the_elements_and_shuffle_alike(context):
    dataset = fl.Dataset.range(50).map(lambda x: x + 100).shuffle(seed=None)
    list(dataset)  # with threads and memory that a fork inherits
    loader = DataLoader(dataset.to_torch(), batch_size=None, num_workers=2, multiprocessing_context=context)
    epochs = [numbers(loader) for _ in range(2)]
    assert [sorted(epoch) for epoch in epochs] == [list(range(100, 150))] * 2
    assert epochs[0] != epochs[1]
    assert len(loader) == 50


def test_workers_that_persist_shuffle_each_epoch_anew():
    dataset = fl.Dataset.range(40).shuffle(10, seed=1)
    loader = DataLoader(dataset.to_torch(), batch_size=None, num_workers=2, persistent_workers=True)
    epochs = [numbers(loader) for _ in range(3)]
    assert [sorted(epoch) for epoch in epochs] == [list(range(40))] * 3
    assert len({tuple(epoch) for epoch in epochs}) == 3


def test_torchs_seed_makes_the_epochs_of_workers_repeatable():
    def epoch():
        torch.manual_seed(3)
        dataset = fl.Dataset.range(40).shuffle(seed=1)
        return numbers(DataLoader(dataset.to_torch(), batch_size=None, num_workers=2))

    assert epoch() == epoch()


@pytest.mark.parametrize("parallel", [None, 4])
def test_workers_read_tfrecords_though_threads_of_the_parent_read_them_when_it_forked(parallel, tmp_path):
    for number in range(4):
        columns = {"x": np.arange(number * 500, (number + 1) * 500)}
        records = map(_native.frame, fl.example.encode_batch(columns))
        (tmp_path / f"{number}.tfrecord").write_bytes(b"".join(records))
    features = {"x": fl.FixedLenFeature([], "int64")}
    files = fl.Dataset.from_tfrecords(tmp_path, features, num_parallel_reads=parallel)
    dataset = files.shuffle(200, seed=1).batch(10).prefetch(2)
    with iter(dataset) as at_work:
        next(at_work)
        loader = DataLoader(dataset.to_torch(), batch_size=None, num_workers=2)
        assert sorted(int(x) for batch in loader for x in batch["x"]) == list(range(2000))


def test_a_dataloader_may_make_the_batches():
    dataset = fl.Dataset.from_tensor_slices((np.arange(6, dtype="float32"), np.arange(6)))
    shapes = [x.shape for x, _ in DataLoader(dataset.to_torch(), batch_size=4)]
    assert shapes == [(4,), (2,)]


def test_it_goes_on_from_a_state():
    elements = fl.Dataset.range(20).shuffle(seed=1).to_torch()
    whole = iter(elements)
    begin = [int(next(whole)) for _ in range(7)]
    state = elements.state_dict()
    end = numbers(whole)
    later = fl.Dataset.range(20).shuffle(seed=1).to_torch()
    later.load_state_dict(state)
    assert numbers(DataLoader(later, batch_size=None)) == end
    assert sorted(numbers(later)) == sorted(begin + end)  # the one after it is whole


def test_the_position_of_workers_is_not_made_up():
    elements = fl.Dataset.range(4).to_torch()
    list(DataLoader(elements, batch_size=None, num_workers=1))
    with pytest.raises(fl.UsageError, match="no iteration was begun in this process"):
        elements.state_dict()


DISTRIBUTED = """
import os
import torch, torch.distributed as dist
import feedline as fl

dist.init_process_group("gloo")
dataset = fl.Dataset.range(101).shuffle(seed=7).shard().batch(4)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
optimizer = torch.optim.SGD(model.parameters(), 1e-6)
seen = []
with model.join():  # one process has an element more than the other
    for x in torch.utils.data.DataLoader(dataset.to_torch(), batch_size=None):
        seen += x.tolist()
        optimizer.zero_grad()
        model(x[:, None].float()).mean().backward()
        optimizer.step()
everything = [None, None]
dist.all_gather_object(everything, seen)
weights = [None, None]
dist.all_gather_object(weights, [p.tolist() for p in model.parameters()])
assert weights[0] == weights[1], weights
assert sorted(everything[0] + everything[1]) == list(range(101)), everything
assert abs(len(everything[0]) - len(everything[1])) == 1
print("each element once", flush=True)
dist.barrier()
os._exit(0)  # torch's own threads abort at exit now and then, without feedline too
"""


def test_two_processes_of_torch_distributed_see_each_element_once(free_port):
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
    both = [start("-c", DISTRIBUTED, RANK=str(rank), **shared) for rank in range(2)]
    assert [output(process).splitlines()[0] for process in both] == ["each element once"] * 2

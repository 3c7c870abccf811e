"""to_torch: an IterableDataset whose tensors share the memory of feedline's arrays, where that is writable.

In a worker of a DataLoader it gives that worker's share of the elements, so that all workers together give
each element once.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import numpy as np

from feedline.adapt.frameworks import need
from feedline.column import Ragged
from feedline.dataset import Dataset
from feedline.errors import UsageError
from feedline.graph import INFINITE, UNKNOWN, tree
from feedline.iterator import DatasetIterator
from feedline.ops.distribute_split import DistributeSplit
from feedline.spec import ARRAYS, STRING
from feedline.structure import flatten
from feedline.tracebacks import hide_frames


def to_torch(dataset: Dataset) -> Any:
    countable = dataset.cardinality() not in (INFINITE, UNKNOWN)
    return _class(countable)(dataset)


@cache
def _class(countable: bool) -> Any:
    # Made here, because the base is known only once torch is imported; and two of them, because torch asks
    # whether there is a __len__, not whether it raises.
    torch = need("torch", "to_torch()", "torch")
    own = _Countable if countable else _Elements
    return type("IterableElements", (own, torch.utils.data.IterableDataset), {})


class _Elements:
    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._elements: DatasetIterator | None = None
        self._state: dict[str, Any] | None = None  # where the next iteration begins
        self._base_seed: int | None = None

    def __iter__(self) -> Iterator[Any]:
        torch = need("torch", "to_torch()", "torch")
        self._elements = elements = self._begun(torch.utils.data.get_worker_info())
        if self._state is not None:
            elements.load_state_dict(self._state)
            self._state = None
        try:
            with elements:
                for element in elements:
                    yield as_tensors(torch, element)
        except hide_frames():
            raise

    def _begun(self, worker: Any) -> DatasetIterator:
        if worker is None:
            return iter(self._dataset)
        if any(isinstance(node, DistributeSplit) for node in tree(self._dataset._node)):
            raise UsageError(
                'to_torch(): with distribute(mode="split"), a DataLoader must have num_workers=0.\n'
                "  The reader service has workers of its own. A worker here would drop what is not its share."
            )
        elements = iter(self._dataset.shard(worker.num_workers, worker.id))
        # A DataLoader starts its workers anew for each epoch, as copies of a process that has counted none.
        # What is common to them, and another number in each epoch, is the seed they were started with.
        base_seed = worker.seed - worker.id
        if base_seed != self._base_seed:
            self._base_seed = base_seed
            elements.load_state_dict({**elements.state_dict(), "epoch": [base_seed]})
        return elements

    def state_dict(self) -> dict[str, Any]:
        """Where the iteration is that was begun last, in this process."""
        if self._elements is None:
            raise UsageError(
                "state_dict(): no iteration was begun in this process.\n"
                "  The workers of a DataLoader know their own positions: use num_workers=0, or torchdata's "
                "StatefulDataLoader, which asks them."
            )
        return self._elements.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let the next iteration begin where `state` was taken."""
        self._state = state

    def __reduce__(self) -> tuple[Any, ...]:
        # For workers that are not forked. Pickle alone takes no lambdas.
        return _rebuilt, (cloudpickle.dumps(self._dataset._node), self._state)


class _Countable(_Elements):
    def __len__(self) -> int:
        return len(self._dataset)


def _rebuilt(node: bytes, state: dict[str, Any] | None) -> Any:
    elements = to_torch(Dataset(cloudpickle.loads(node)))
    elements._state = state
    return elements


def as_tensors(torch: Any, element: Any) -> Any:
    """The element with tensors for its arrays. Strings stay what they are: torch has none."""
    leaves, structure = flatten(element)
    tensors = []
    for number, leaf in enumerate(leaves):
        try:
            tensors.append(_tensor(torch, leaf))
        except UsageError as error:
            raise UsageError(f"to_torch(): {structure.paths()[number]} {error}") from None
    return structure.unflatten(tensors)


def _tensor(torch: Any, leaf: Any) -> Any:
    if isinstance(leaf, Ragged):
        raise UsageError(
            "is Ragged, and torch has no such tensors.\n"
            "  Fill its rows up, with padded_batch(...) instead of batch(...), or with map(...) and "
            "Ragged.to_dense()."
        )
    if not isinstance(leaf, ARRAYS) or leaf.dtype == STRING:
        return leaf
    array = np.asarray(leaf)
    if not (array.flags.writeable and array.flags.c_contiguous):
        array = array.copy()  # torch has no read-only tensors: writing to one would change the source
    if array.dtype.isbuiltin != 2:
        return torch.from_numpy(array)
    # Of ml_dtypes. torch has int4 too, by name, but not with one in each byte.
    name = array.dtype.name
    dtype = getattr(torch, name, None) if name.startswith(("bfloat16", "float8")) else None
    if dtype is None:
        raise UsageError(f"is {name}, which torch does not have.\n  Convert it with map(...).")
    return torch.from_numpy(array.view(f"u{array.dtype.itemsize}")).view(dtype)
